"""Names for the demo graph, all invented."""

from __future__ import annotations

STEMS = (  # English, German, Finnish; places are named by putting an ending behind
    ("Amber", "Bernstein", "Meripihka"), ("Heron", "Reiher", "Haikara"), ("Seal", "Robben", "Hylje"),
    ("Birch", "Birken", "Koivu"), ("Stone", "Stein", "Kivi"), ("Gull", "Möwen", "Lokki"),
    ("Herring", "Herings", "Silakka"), ("Moon", "Mond", "Kuu"), ("Pine", "Kiefern", "Mänty"),
    ("Swan", "Schwanen", "Joutsen"), ("Rowan", "Ebereschen", "Pihlaja"), ("Juniper", "Wacholder", "Kataja"),
    ("Fox", "Fuchs", "Kettu"), ("Raven", "Raben", "Korppi"), ("Copper", "Kupfer", "Kupari"),
    ("Willow", "Weiden", "Paju"), ("Otter", "Otter", "Saukko"), ("Salt", "Salz", "Suola"),
    ("Crane", "Kranich", "Kurki"), ("Barley", "Gersten", "Ohra"), ("Tern", "Seeschwalben", "Tiira"),
    ("Alder", "Erlen", "Leppä"), ("Iron", "Eisen", "Rauta"), ("Hare", "Hasen", "Jänis"),
    ("Pike", "Hecht", "Hauki"), ("Reed", "Schilf", "Ruoko"), ("Bell", "Glocken", "Kello"),
    ("Lantern", "Laternen", "Lyhty"), ("Clover", "Klee", "Apila"), ("Thunder", "Donner", "Ukkos"),
)  # fmt: skip
ISLAND_ENDINGS = ((" Island", "insel", "saari"), (" Skerry", "schäre", "luoto"))
HARBOUR_ENDINGS = ((" Haven", "hafen", "satama"), (" Quay", "kai", "laituri"), (" Bay", "bucht", "lahti"))
LIGHT_ENDINGS = ((" Point Light", "spitze-Leuchtturm", "niemen majakka"), (" Rock Light", "fels-Leuchtturm", "kallion majakka"))

FERRIES = (
    "Kestrel", "Aurelia", "Morning Tide", "Silver Wake", "Northern Lark", "Isolde", "Harbour Rose", "Sea Thrift", "Marigold",
    "Petrel", "Evening Star", "Vesna", "Linnea", "Blue Heron", "Cormorant", "Windflower", "Oystercatcher", "Solveig",
    "Little Auk", "Fairwater",
)  # fmt: skip
CARGO_SHIPS = (
    "Granite Coast", "Olympe Trader", "Hanna Bulk", "Grey Whale", "Steadfast", "Amberline", "Ostrava Star", "Polar Merchant",
    "Timber Queen", "Brave Mallard", "Cape Lindgren", "Doris Wind", "Ferrous", "Gneiss", "Halcyon Trader", "Iron Duchess",
    "Jonna", "Kastor", "Long Reach", "Meridian Bulk", "Nordwind", "Orchard", "Pollux", "Quartz",
)  # fmt: skip
TUGBOATS = ("Bulldog", "Hercules Minor", "Ox", "Patience", "Stubborn", "Terrier", "Titan", "Walrus")

GIVEN = (
    "Aino", "Birger", "Clara", "Dagmar", "Eero", "Frida", "Gustav", "Helmi", "Ilmari", "Jutta", "Kaspar", "Liv", "Matti",
    "Nora", "Oskar", "Pihla", "Ragnar", "Saima", "Torben", "Ulla", "Veikko", "Wanda", "Ylva", "Anton", "Berta", "Carsten",
    "Dorthe", "Elias", "Fenja", "Georg", "Hedda", "Inka", "Jonas", "Katri", "Lennart", "Maren", "Niilo", "Olga", "Paavo",
    "Ronja", "Stina", "Tuomas",
)  # fmt: skip
FAMILY = (
    "Ahlqvist", "Bergdahl", "Claussen", "Dahlin", "Ekman", "Frisk", "Grönholm", "Harju", "Isaksen", "Jansson", "Korpela",
    "Lindroos", "Metsola", "Nyholm", "Odefey", "Petersen", "Rantala", "Sandvik", "Tiainen", "Uhlig", "Virtala", "Westerby",
)  # fmt: skip
COMPANIES = (
    "Skerry Line", "Blue Anchor Shipping", "Outer Islands Ferries", "Baltazar & Daughters", "Lodestar Freight",
    "Whitecap Lines", "Fathom Seven", "Cooperative of Reed Bay", "Tideway Logistics",
)  # fmt: skip
COMMODITIES = (  # English, German, Finnish, hazardous
    ("timber", "Holz", "puutavara", False), ("salt", "Salz", "suola", False),
    ("smoked herring", "Räucherhering", "savusilakka", False), ("diesel oil", "Dieselöl", "dieselöljy", True),
    ("fertiliser", "Dünger", "lannoite", True), ("grain", "Getreide", "vilja", False),
    ("machine parts", "Maschinenteile", "koneenosat", False), ("paint", "Farbe", "maali", True),
    ("paper", "Papier", "paperi", False), ("bricks", "Ziegel", "tiilet", False),
    ("fireworks", "Feuerwerk", "ilotulitteet", True), ("seed potatoes", "Saatkartoffeln", "siemenperunat", False),
)  # fmt: skip
