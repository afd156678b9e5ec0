#include "talosctl/dashboard/sheet.h"

#include <gtest/gtest.h>

namespace talos::talosctl::dashboard {
namespace {

Sheet nodes() {
  Sheet sheet({{"NODE"}, {"NOTE", 2}, {"CPU", 1, 40, true}, {"PROBLEM"}});
  sheet.add("master-1", "a note", "12 %", "");
  sheet.add("worker-1", "", "3 %", "etcd: away");
  return sheet;
}

TEST(Sheet, ColumnsOfLessUseGoFirst) {
  Canvas wide(3, 40), narrow(3, 26), least(3, 14);
  nodes().draw(Area(wide), nullptr);
  EXPECT_EQ(wide.text(),
            "NODE      NOTE     CPU  PROBLEM\n"
            "master-1  a note  12 %\n"
            "worker-1           3 %  etcd: away\n"_kj);
  nodes().draw(Area(narrow), nullptr);
  EXPECT_EQ(narrow.text(),
            "NODE       CPU  PROBLEM\n"
            "master-1  12 %\n"
            "worker-1   3 %  etcd: away\n"_kj);
  nodes().draw(Area(least), nullptr);
  EXPECT_EQ(least.text(), "NODE      PRO…\nmaster-1\nworker-1  etc…\n"_kj);
}

// Catches: columns that appear and disappear with the digits of a rate.
TEST(Sheet, ATextThatChangesDoesNotMoveTheOthers) {
  auto drawn = [](kj::StringPtr rate) {
    Sheet sheet({{"N"}, {"RATE", 0, 30, false, 8}, {"X", 1}});
    sheet.add("a", rate, "x");
    Canvas canvas(2, 14);
    sheet.draw(Area(canvas), nullptr);
    return canvas.text();
  };
  EXPECT_EQ(drawn("1 B"), "N  RATE      X\na  1 B       x\n"_kj);
  EXPECT_EQ(drawn("999 kB/s"), "N  RATE      X\na  999 kB/s  x\n"_kj);
}

// Catches: a long text at the end of a row that displaces every number of a narrow table; a text
// that is not shown at all although half of it fits.
TEST(Sheet, ALongTextAtTheEndTakesWhatIsLeft) {
  auto drawn = [](unsigned rank, size_t columns) {
    Sheet sheet({{"N"}, {"PID", 1, 8, true}, {"MESSAGE", rank, 60}});
    sheet.add("a", "12345", "Health check failed: connection refused, once more");
    Canvas canvas(2, columns);
    sheet.draw(Area(canvas), nullptr);
    return canvas.text();
  };
  for (unsigned rank : {0u, 2u}) {
    EXPECT_EQ(drawn(rank, 28),
              "N    PID  MESSAGE\n"
              "a  12345  Health check fail…\n"_kj);
    EXPECT_EQ(drawn(rank, 40),
              "N    PID  MESSAGE\n"
              "a  12345  Health check failed: connecti…\n"_kj);
  }
  EXPECT_EQ(drawn(0, 20), "N  MESSAGE\na  Health check fai…\n"_kj);
  EXPECT_EQ(drawn(2, 20), "N    PID\na  12345\n"_kj);
}

TEST(Sheet, AFilterLooksAtEveryCell) {
  auto sheet = nodes();
  sheet.keep("ETCD");
  ASSERT_EQ(sheet.size(), 1u);
  EXPECT_EQ(sheet.textAt(0, 0), "worker-1"_kj);
  EXPECT_EQ(sheet.textAt(1, 0), ""_kj);
}

TEST(Sheet, TheSelectedLineStaysVisible) {
  Sheet sheet({{"N"}});
  for (int i = 0; i < 100; ++i) sheet.add(kj::str(i));
  Canvas canvas(4, 5);
  sheet.draw(Area(canvas), size_t(99));
  EXPECT_EQ(canvas.text(), "N\n97\n98\n99\n"_kj);
}

TEST(Sheet, AnAreaKeepsToItself) {
  Canvas canvas(3, 6);
  auto area = Area(canvas).part(1, 2, 1, 3);
  area.put(0, 0, "abcdef");
  area.put(1, 0, "x");
  area.bar(0, 9, 2, 1, Look::kGood);
  EXPECT_EQ(canvas.text(), "\n  ab…\n"_kj);
}

}  // namespace
}  // namespace talos::talosctl::dashboard
