/** Two databases that differ in every way a difference can be: see `changes`. */
export const seed = `
CREATE TABLE users (id INTEGER PRIMARY KEY, name TEXT, age INTEGER, "order" TEXT, prefs TEXT);
CREATE TABLE likes (user_id TEXT, item TEXT, note TEXT, PRIMARY KEY (user_id, item));
CREATE TABLE logs (line TEXT);
CREATE TABLE quiet (id INTEGER PRIMARY KEY, v TEXT);
INSERT INTO users VALUES (1, 'Ada', 36, 'b', '{"a":1,"b":[2]}'), (2, 'Bob', NULL, 'a', NULL), (3, 'Cy', 7, 'c', '[]');
INSERT INTO likes VALUES ('1', 'tea', NULL), ('2', 'rum', 'dark');
INSERT INTO logs VALUES ('one'), ('two');
INSERT INTO quiet VALUES (1, 'x');
`;
/** User 1 changes (and a JSON text only in its spacing), 2 goes, 4 comes; a like with a key of two columns comes. */
export const changes = `
UPDATE users SET age = 37, prefs = '{ "b": [2], "a": 1 }' WHERE id = 1;
DELETE FROM users WHERE id = 2;
INSERT INTO users VALUES (4, 'Di', 50, 'd', NULL);
INSERT INTO likes VALUES ('1', 'cake', NULL);
`;

/** Expressions over `seed`, `current` and `diff`, none of which depends on an order that nobody promises. */
export const expressions = [
  'current.table("users").eq("id", 1).first()',
  'current.table("users").neq("id", 1).sort("id", desc=True).limit(1).all()',
  'current.table("users").gt("age", 7).lte("age", 50).gte("id", 1).lt("id", 9).sort("name").all()',
  'current.table("users").in_("id", [1, 3, 99]).not_in("name", ["Cy"]).all()',
  'current.table("users").not_null("age").is_null("prefs").all()',
  'current.table("users").ilike("name", "%D%").sort("id").select("name").all()',
  'current.table("users").eq("name", None).all()',
  'current.table("users").eq("id", 99).first()',
  'current.table("users").in_("id", []).all()',
  'current.table("users").join("likes", {"id": "user_id"}).select("name", "item").eq("item", "cake").all()',
  'int(current.table("users").eq("id", 1).count())',
  'current.table("users").count().assert_eq(4)',
  'current.table("users").count().assert_gt(3)',
  'current.table("users").eq("nothing", 1).all()',
  'current.table("users").eq("id", 1).assert_eq("name", "Ada") and 1',
  'current.tables()',
  'current.expect_row("users", {"id": 1}, {"age": 37}) and 1',
  'current.expect_rows("likes", {"user_id": "1"}, count=2, contains=[{"item": "cake"}]) and 1',
  'current.expect_rows("likes", {"user_id": "1"}, contains=[{"item": "pie"}]) and 1',
  'current.expect_absent_row("users", {"id": 2}) and 1',
  'seed.diff(seed).expect_only([]) and 1',
  'seed.diff(seed).expect_only_v2([]) and 1',
  'diff().expect_only([{"table": "users", "pk": 1, "field": "age", "after": 37}]) and 1',
  'diff("users", "likes").expect_only([{"table": "quiet", "pk": 1, "field": "v", "after": "y"}]) and 1',
  'diff("likes").expect_only([{"table": "users", "pk": 1, "field": "age", "after": 38}]) and 1',
  'diff("likes").expect_only([{"table": "users", "pk": "1", "field": "age", "after": 37}, {"table": "users", "pk": 2, "after": "__removed__"}]) and 1',
  'diff("likes").expect_only([{"table": "users", "pk": 4, "field": None, "after": "__removed__"}]) and 1',
  'diff("users").expect_only([{"table": "likes", "pk": ["1", "cake"], "field": None, "after": "__added__"}]) and 1',
  'diff("likes").expect_only_v2([{"table": "users", "pk": 1, "type": "modify", "resulting_fields": [("age", 37)], "no_other_changes": True}]) and 1',
  'diff("likes").expect_only_v2([{"table": "users", "pk": 1, "type": "modify", "resulting_fields": [], "no_other_changes": True}]) and 1',
  'diff("likes").expect_only_v2([{"table": "users", "pk": 1, "type": "modify", "resulting_fields": [], "no_other_changes": False}]) and 1',
  'diff("likes").expect_only_v2([{"table": "users", "pk": 1, "type": "modify", "resulting_fields": [("age", 3)], "no_other_changes": False}]) and 1',
  'diff("likes").expect_only_v2([{"table": "users", "pk": 1, "type": "modify", "resulting_fields": [("age", ...)]}]) and 1',
  'diff("likes").expect_only_v2([{"table": "users", "pk": 1, "type": "modify", "resulting_fields": [("age", ...)], "no_other_changes": 1}]) and 1',
  'diff("likes").expect_only_v2([{"table": "users", "pk": 1, "type": "modify", "resulting_fields": ["age"], "no_other_changes": True}]) and 1',
  'diff("likes").expect_only_v2([{"table": "users", "pk": 1, "type": "modify"}]) and 1',
  'diff("likes").expect_only_v2([{"table": "users", "pk": 1, "field": "age", "after": 37}]) and 1',
  'diff("likes").expect_only_v2([{"table": "users", "pk": 1, "field": "name", "after": "Ada"}]) and 1',
  'diff("likes").expect_only_v2([{"table": "users", "pk": 4, "type": "insert"}]) and 1',
  'diff("likes").expect_only_v2([{"table": "users", "pk": 4, "type": "insert", "fields": [("id", 4), ("name", "Di"), ("age", ...), ("order", "d"), ("prefs", None)]}]) and 1',
  'diff("likes").expect_only_v2([{"table": "users", "pk": 4, "type": "insert", "fields": [("id", 4), ("name", "Do"), ("age", ...), ("order", "d"), ("prefs", None)]}]) and 1',
  'diff("likes").expect_only_v2([{"table": "users", "pk": 4, "type": "insert", "fields": [("id", 4), ("name", "Di")]}]) and 1',
  'diff("likes", fields={"age", "order", "prefs"}).expect_only_v2([{"table": "users", "pk": 4, "type": "insert", "fields": [("id", 4), ("name", "Di")]}]) and 1',
  'diff("likes", table_fields={"users": {"age"}}).expect_only_v2([{"table": "users", "pk": 1, "field": "x", "after": 0}]) and 1',
  'diff("likes").expect_only_v2([{"table": "users", "pk": 4, "fields": None, "after": "__added__"}]) and 1',
  'diff("likes").expect_only_v2([{"table": "users", "pk": 4, "type": "delete"}]) and 1',
  'diff("likes").expect_only_v2([{"table": "users", "pk": 2, "type": "delete", "fields": [("name", "Bob")]}]) and 1',
  'diff("likes").expect_only_v2([{"table": "users", "pk": 2, "type": "delete", "fields": [("name", "Rob")]}]) and 1',
  'diff("likes").expect_only_v2([{"table": "users", "pk": 2, "type": "delete", "fields": [("nick", "Rob")]}]) and 1',
  'diff("likes").expect_only_v2([{"table": "users", "pk": 2, "fields": None, "after": "__removed__"}]) and 1',
  'diff("users").expect_only_v2([{"table": "likes", "pk": ("1", "cake"), "type": "insert", "fields": [("user_id", "1"), ("item", "cake"), ("note", None)]}]) and 1',
  'diff("users").expect_only_v2([{"table": "likes", "pk": ["1", "pie"], "type": "insert"}]) and 1',
  'diff("users").expect_only_v2([{"table": "quiet", "pk": 1, "type": "modify"}]) and 1',
  'diff("likes").expect(allow=[{"table": "users", "field": "name"}, {"table": "users", "field": "prefs"}]) and 1',
  'diff("likes").expect(forbid=[{"table": "users", "field": "age"}], allow=[{"table": "users", "field": "prefs"}]) and 1',
  'diff("likes").expect(forbid=[{"table": "users"}]) and 1',
  'diff("users").expect(forbid=[{"table": "users"}]) and 1',
  'diff("likes").expect_exactly([{"table": "users", "pk": 1, "type": "modify", "resulting_fields": [("age", 37)], "no_other_changes": False}, {"table": "users", "pk": 4, "type": "insert"}, {"table": "users", "pk": 2, "type": "delete", "fields": [("name", "Bob")]}]) and 1',
  'normalized_contains("Grand-Hotel", ["the GRAND hotel!", 3])',
  'normalized_contains("", None)',
  'normalized_string_comparison("J. Doe", "j doe")',
  'normalized_string_comparison("J. Doe", {"name": "j doe"})',
  'extract_numbers("1,200.50 and -3 or 4.")',
  'contains_number("it is $1,200", "1,200")',
  'contains_number("it is $1,200", 1200)',
  'contains_number("it is 12", "dozen")',
  'normalized_contains(None, "x")',
];

/** Where the vendor's client of files says it in other words than its client of instances, whose words ours are. */
export const inOtherWords = [
  'diff("likes").expect_exactly([{"table": "users", "pk": 1}]) and 1',
  'diff("likes").expect_exactly([{"table": "users", "pk": 1, "type": "modify", "resulting_fields": [("age", 37)], "no_other_changes": False}, {"table": "users", "pk": 4, "type": "insert"}]) and 1',
  'diff("likes").expect_exactly([{"table": "users", "pk": 1, "type": "modify", "resulting_fields": [("age", 3)], "no_other_changes": False}, {"table": "users", "pk": 4, "type": "insert"}, {"table": "users", "pk": 9, "type": "delete"}]) and 1',
  'diff("likes").expect_only_v2([{"table": "users", "type": "insert"}, {"table": "users", "pk": 4, "type": "insert"}]) and 1',
  'diff("users").expect_only([{"table": "likes", "field": "note", "after": "x"}]) and 1',
  'current.table("users").eq("order", "d").select("name", "age").all()',
  'current.table("nothing").all()',
  'current.table("users").eq("id", 1).assert_none() and 1',
  'diff().expect_only([]) and 1',
];

/** A verifier that returns what each expression gives, or what it raises. */
export const probe = (asked: readonly string[]): string => `
def verify(env, final_answer=None):
    seed, current = env.db("seed"), env.db("current")

    def diff(*tables, fields=None, table_fields=None):
        return seed.diff(current, IgnoreConfig(tables=set(tables), fields=fields, table_fields=table_fields))

    names = {**globals(), "seed": seed, "current": current, "diff": diff}
    found = []
    for expression in json.loads(${JSON.stringify(JSON.stringify(asked))}):
        try:
            value = eval(expression, names)
            found.append([expression, str(value) if "assert_" in expression else value])
        except Exception as error:
            found.append([expression, f"{type(error).__name__}: {error}"])
    return found
`;
