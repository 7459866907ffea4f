// A database in memory: joins, windows, recursion, full text, JSON, triggers, rollbacks.
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>

static int row(void *unused, int count, char **values, char **names) {
    (void)unused, (void)names;
    for (int i = 0; i < count; i++) printf("%s%s", i ? "|" : "", values[i] ? values[i] : "null");
    putchar('\n');
    return 0;
}

static const char *const steps[] = {
    "create table numbers(id integer primary key, v integer, name text, x real)",
    "with recursive n(i) as (select 1 union all select i + 1 from n where i < 4000)"
    " insert into numbers select i, i * 7919 % 4001, printf('name %05d', i * 31 % 997), i / 7.0 from n",
    "create index by_v on numbers(v)",
    "create index by_name on numbers(name, v desc)",
    "select count(*), sum(v), min(name), max(name), round(avg(x), 6) from numbers",
    "select a.id, b.id from numbers a join numbers b on a.v = b.id where a.id < 400 order by b.name, a.id limit 12",
    "select name, count(*) c, group_concat(v) from numbers group by name having c > 4 order by name limit 5",
    "select id, sum(v) over (order by id rows 5 preceding), rank() over (partition by v % 7 order by x)"
    " from numbers order by v limit 10",
    "create virtual table texts using fts5(body)",
    "insert into texts select name || ' and ' || printf('word%d', v % 50) || ' ' || id from numbers where id < 800",
    "select count(*) from texts where texts match 'word7 or word11'",
    "select rowid, snippet(texts, 0, '[', ']', '..', 4) from texts where texts match 'word3' order by rank, rowid limit 4",
    "create virtual table boxes using rtree(id, x0, x1, y0, y1)",
    "insert into boxes select id, v, v + 10, id, id + 5 from numbers where id < 1000",
    "select count(*), sum(id) from boxes where x0 > 500 and x1 < 1500 and y0 > 100",
    "select json_group_array(json_object('i', id, 'v', v)) from (select * from numbers where id % 500 = 0)",
    "select sum(value) from json_each((select json_group_array(v) from numbers where id < 200))",
    "create table log(what text, n integer)",
    "create trigger t after update on numbers begin insert into log values(old.name, new.v - old.v); end",
    "begin",
    "update numbers set v = v * 2 + 1 where id % 3 = 0",
    "savepoint s",
    "delete from numbers where id > 2000",
    "rollback to s",
    "commit",
    "select count(*), sum(n) from log",
    "with recursive m(x, y, i) as (select -0.7, 0.3, 0 union all select x * x - y * y - 0.4, 2 * x * y + 0.6, i + 1 from m"
    " where i < 300) select round(sum(x), 6), round(max(y), 6) from m",
    "select count(*) from numbers where name like '%9%' and name glob '*0[1-5]*'",
    "select hex(substr(group_concat(name, ''), 100, 40)) from (select name from numbers order by v % 100, id limit 50)",
    "vacuum",
    "pragma integrity_check",
};

static int once(void) {
    sqlite3 *db;
    if (sqlite3_open(":memory:", &db)) return 1;
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        char *message = NULL;
        if (sqlite3_exec(db, steps[i], row, NULL, &message)) {
            printf("step %zu: %s\n", i, message ? message : "?");
            exit(1);
        }
    }
    return sqlite3_close(db);
}

// SCALE: how often; at 1 for about a second, without it once.
int main(int argc, char **argv) {
    double scale = argc > 1 ? atof(argv[1]) : 0.0;
    for (int rounds = 1 + (int)(9 * scale); rounds > 0; rounds--)
        if (once())
            return 1;
    return 0;
}
