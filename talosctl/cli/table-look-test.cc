#include "talosctl/cli/table-look.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "talosctl/cli/table.h"

namespace talos::talosctl {
namespace {

kj::String sampleServices() {
  Table table({"NODE", "SERVICE", "STATE", "HEALTH", "LAST EVENT"});
  table.add("10.0.0.2", "apid", "Running", "OK", "Health check successful, after a long time");
  table.add("10.0.0.2", "etcd", "Failed", "?", "größer");
  return table.render();
}

// Catches: a table that is changed where nobody looks at it, or where it fits.
TEST(TableLook, IsLeftAloneWhereItFits) {
  auto table = sampleServices();
  EXPECT_EQ(dressed(table, {}), table);
  EXPECT_EQ(dressed(table, {.columns = 200}), table);
  EXPECT_EQ(dressed("Client:\n\tTag:  v0.9.0  x\n", {.columns = 5, .color = true}),
            "Client:\n\tTag:  v0.9.0  x\n");
  EXPECT_EQ(dressed("", {.columns = 5, .color = true}), "");
}

TEST(TableLook, FreeTextIsCutToTheWidth) {
  auto cut = dressed(sampleServices(), {.columns = 60});
  EXPECT_EQ(cut,
            "NODE      SERVICE  STATE    HEALTH  LAST EVENT\n"
            "10.0.0.2  apid     Running  OK      Health check successful…\n"
            "10.0.0.2  etcd     Failed   ?       größer\n");
  // Names are whole, however narrow it is.
  auto narrow = dressed(sampleServices(), {.columns = 10});
  EXPECT_EQ(narrow,
            "NODE      SERVICE  STATE    HEALTH  LAST EVENT\n"
            "10.0.0.2  apid     Running  OK      Health chec…\n"
            "10.0.0.2  etcd     Failed   ?       größer\n");
}

// Catches: colours that move the columns, or that are given to words which are no states.
TEST(TableLook, StatesHaveColours) {
  Table table({"NODE", "ID", "STATE"});
  table.add("a", "running", "Running");
  table.add("b", "failed", "Failed");
  table.add("c", "x", "Waiting");
  table.add("d", "y", "new");
  EXPECT_EQ(dressed(table.render(), {.color = true}),
            "NODE   ID        STATE\n"
            "a      running   \033[32mRunning\033[0m\n"
            "b      failed    \033[31mFailed\033[0m\n"
            "c      x         \033[33mWaiting\033[0m\n"
            "d      y         new\n");
}

}  // namespace
}  // namespace talos::talosctl
