import java.util.ArrayList;
import java.util.List;
import org.eclipse.rdf4j.model.IRI;
import org.eclipse.rdf4j.model.Value;
import org.eclipse.rdf4j.model.ValueFactory;
import org.eclipse.rdf4j.model.impl.SimpleValueFactory;
import org.eclipse.rdf4j.query.QueryLanguage;
import org.eclipse.rdf4j.query.QueryResults;
import org.eclipse.rdf4j.repository.Repository;
import org.eclipse.rdf4j.repository.RepositoryConnection;
import org.eclipse.rdf4j.repository.http.HTTPRepository;
import org.eclipse.rdf4j.repository.sparql.SPARQLRepository;

/**
 * Drives a server with the RDF4J client library as its users do, and prints one line for each step: PASS name, FAIL name: why, or
 * (a step that was not asked for) SKIP name. The exit status is the number of failures.
 *
 * <p>Arguments: server URL (without a trailing slash), repository id, and any of: read-only (no step writes), no-transactions.
 * Steps that write leave nothing behind.
 */
public final class Rdf4jClient {
    private static final ValueFactory VALUES = SimpleValueFactory.getInstance();
    private static final String NAMESPACE = "http://example.org/rdf4j-client/";
    private static final IRI GRAPH = VALUES.createIRI(NAMESPACE + "graph");
    private static final IRI LABEL = VALUES.createIRI(NAMESPACE + "label");
    private static int failures = 0;

    private interface Step {
        void run() throws Exception;
    }

    public static void main(String[] args) {
        var options = List.of(args).subList(2, args.length);
        boolean writes = !options.contains("read-only");
        boolean transactions = writes && !options.contains("no-transactions");

        var http = new HTTPRepository(args[0], args[1]);
        http.init();
        step("http size", true, () -> with(http, c -> check(c.size() >= 0, "negative size")));
        step("http namespaces", true, () -> with(http, c -> QueryResults.asList(c.getNamespaces())));
        step("http contexts", true, () -> with(http, c -> QueryResults.asList(c.getContextIDs())));
        step("http isWritable", true, () -> check(http.isWritable() || !writes, "the server calls the repository read-only"));
        everyForm("http", http);
        step("http getStatements", true, () -> with(http, c -> QueryResults.asList(c.getStatements(null, LABEL, null, true))));
        step("http update", writes, () -> with(http, c -> writeAndRead(c)));
        step("http transaction", transactions, () -> with(http, c -> transaction(c)));
        step("http rollback", transactions, () -> with(http, c -> rollback(c)));
        http.shutDown();

        var repository = args[0] + "/repositories/" + args[1];
        var sparql = new SPARQLRepository(repository, repository + "/statements");
        sparql.init();
        everyForm("sparql", sparql);
        step("sparql update", writes, () -> with(sparql, c -> writeAndRead(c)));
        sparql.shutDown();

        System.exit(failures);
    }

    private static void everyForm(String kind, Repository repository) {
        step(kind + " select", true, () -> with(repository, c -> {
            var rows = new ArrayList<Value>();
            try (var result = c.prepareTupleQuery("SELECT ?x { VALUES ?x { \"Zürich +#&\" <http://example.org/a> 3 } }").evaluate()) {
                result.forEach(solution -> rows.add(solution.getValue("x")));
            }
            check(rows.size() == 3, "3 solutions expected, " + rows.size() + " came");
            check(rows.contains(VALUES.createLiteral("Zürich +#&")), "the text did not survive: " + rows);
        }));
        step(kind + " binding", true, () -> with(repository, c -> {
            var query = c.prepareBooleanQuery("ASK { FILTER(?x = 3) }");
            query.setBinding("x", VALUES.createLiteral(java.math.BigInteger.valueOf(3)));
            check(query.evaluate(), "the binding x=3 was lost on the way");
            query.setBinding("x", VALUES.createLiteral(java.math.BigInteger.valueOf(4)));
            check(!query.evaluate(), "the binding x=4 was lost on the way");
        }));
        step(kind + " ask", true, () -> with(repository, c -> check(c.prepareBooleanQuery("ASK {}").evaluate(), "ASK {} is false")));
        step(kind + " construct", true, () -> with(repository, c -> {
            var statements = QueryResults.asList(c.prepareGraphQuery("CONSTRUCT { <urn:a> <urn:b> ?x } { VALUES ?x { 1 2 } }").evaluate());
            check(statements.size() == 2, "2 statements expected, " + statements.size() + " came");
        }));
        step(kind + " malformed", true, () -> with(repository, c -> {
            try (var result = c.prepareTupleQuery(QueryLanguage.SPARQL, "SELECT * { ?s nosuch:thing ?o }").evaluate()) {
                throw new IllegalStateException("an undeclared prefix was accepted");
            } catch (org.eclipse.rdf4j.query.MalformedQueryException | org.eclipse.rdf4j.query.QueryEvaluationException expected) {
                check(expected.getMessage() != null && expected.getMessage().contains("nosuch"), "the message does not name it: " + expected.getMessage());
            }
        }));
    }

    private static void writeAndRead(RepositoryConnection connection) {
        var subject = VALUES.createIRI(NAMESPACE + "update");
        var data = "<" + subject + "> <" + LABEL + "> \"é\" ";
        connection.prepareUpdate("INSERT DATA { GRAPH <" + GRAPH + "> { " + data + "} }").execute();
        check(holds(connection, subject), "what was inserted is not there");
        connection.prepareUpdate("DELETE DATA { GRAPH <" + GRAPH + "> { " + data + "} }").execute();
        check(!holds(connection, subject), "what was deleted is still there");
    }

    private static void transaction(RepositoryConnection connection) {
        var subject = VALUES.createIRI(NAMESPACE + "transaction");
        connection.begin();
        connection.add(subject, LABEL, VALUES.createLiteral("in a transaction"), GRAPH);
        check(holds(connection, subject), "the transaction does not see what it added");
        connection.prepareUpdate("INSERT DATA { GRAPH <" + GRAPH + "> { <" + subject + "> <" + LABEL + "> 2 } }").execute();
        connection.commit();
        try (var statements = connection.getStatements(subject, LABEL, null, false, GRAPH)) {
            check(statements.stream().count() == 2, "the commit did not keep both statements");
        }
        connection.begin();
        connection.remove(subject, null, null, GRAPH);
        connection.commit();
        check(!holds(connection, subject), "what the second transaction removed is still there");
    }

    private static void rollback(RepositoryConnection connection) {
        var subject = VALUES.createIRI(NAMESPACE + "rollback");
        connection.begin();
        connection.add(subject, LABEL, VALUES.createLiteral("gone"), GRAPH);
        connection.rollback();
        check(!holds(connection, subject), "the rollback kept the statement");
    }

    private static boolean holds(RepositoryConnection connection, IRI subject) {
        return connection.prepareBooleanQuery("ASK { GRAPH <" + GRAPH + "> { <" + subject + "> <" + LABEL + "> ?o } }").evaluate();
    }

    private static void step(String name, boolean wanted, Step step) {
        if (!wanted) {
            System.out.println("SKIP " + name);
            return;
        }
        try {
            step.run();
            System.out.println("PASS " + name);
        } catch (Throwable problem) {
            failures++;
            System.out.println("FAIL " + name + ": " + problem.toString().replace('\n', ' '));
        }
    }

    private interface Use {
        void on(RepositoryConnection connection) throws Exception;
    }

    private static void with(Repository repository, Use use) throws Exception {
        try (var connection = repository.getConnection()) {
            use.on(connection);
        }
    }

    private static void check(boolean holds, String otherwise) {
        if (!holds) {
            throw new IllegalStateException(otherwise);
        }
    }
}
