import java.io.File;
import java.net.InetAddress;
import org.apache.catalina.Context;
import org.apache.catalina.connector.Connector;
import org.apache.catalina.startup.Tomcat;
import org.apache.tomcat.util.scan.StandardJarScanner;
import org.apache.tomcat.util.scan.StandardJarScanFilter;

/** Serves the unpacked RDF4J Server web application at the root of a loopback port, as GraphDB serves its own. */
public final class Rdf4jServer {
    /**
     * Arguments: port, folder of the unpacked WAR, folder for everything that is written.
     * System property org.eclipse.rdf4j.appdata.basedir names the folder of the repositories.
     */
    public static void main(String[] args) throws Exception {
        var tomcat = new Tomcat();
        tomcat.setBaseDir(args[2]);
        var connector = new Connector("HTTP/1.1");
        connector.setProperty("address", InetAddress.getLoopbackAddress().getHostAddress());
        connector.setPort(Integer.parseInt(args[0]));
        tomcat.setConnector(connector);

        Context context = tomcat.addWebapp("", new File(args[1]).getAbsolutePath());
        // Nothing in these jars is found by annotation or tag library, and reading 150 of them costs seconds.
        var filter = new StandardJarScanFilter();
        filter.setDefaultPluggabilityScan(false);
        filter.setDefaultTldScan(false);
        var scanner = new StandardJarScanner();
        scanner.setScanManifest(false);
        scanner.setJarScanFilter(filter);
        context.setJarScanner(scanner);

        tomcat.start();
        if (!context.getState().isAvailable()) {
            System.err.println("the web application did not start");
            System.exit(1);
        }
        System.out.println("ready");
        tomcat.getServer().await();
    }
}
