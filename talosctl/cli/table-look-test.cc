#include "talosctl/cli/table-look.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "talosctl/cli/table.h"
#include "talosctl/cli/test-console.h"

namespace talos::talosctl {
namespace {

kj::String shown(kj::StringPtr table, const TableLook& look) {
  return kj::str(dressed(table, look).asPtr());
}

kj::String sampleServices() {
  Table table({"NODE", "SERVICE", "STATE", "HEALTH", "LAST EVENT"});
  table.add("10.0.0.2", "apid", "Running", "OK", "Health check successful, after a long time");
  table.add("10.0.0.2", "etcd", "Failed", "?", "größer");
  return table.render();
}

// Catches: a table that is changed although stdout is not a terminal or the table fits.
TEST(TableLook, IsLeftAloneWhereItFits) {
  auto table = sampleServices();
  EXPECT_EQ(shown(table, {}), table);
  EXPECT_EQ(shown(table, {.columns = 200}), table);
  EXPECT_EQ(shown("Client:\n\tTag:  v0.9.0  x\n", {.columns = 5, .color = true}),
            "Client:\n\tTag:  v0.9.0  x\n");
  EXPECT_EQ(shown("", {.columns = 5, .color = true}), "");
}

TEST(TableLook, FreeTextIsCutToTheWidth) {
  auto cut = shown(sampleServices(), {.columns = 60});
  EXPECT_EQ(cut,
            "NODE      SERVICE  STATE    HEALTH  LAST EVENT\n"
            "10.0.0.2  apid     Running  OK      Health check successful…\n"
            "10.0.0.2  etcd     Failed   ?       größer\n");
  // Names stay whole at any width.
  auto narrow = shown(sampleServices(), {.columns = 10});
  EXPECT_EQ(narrow,
            "NODE      SERVICE  STATE    HEALTH  LAST EVENT\n"
            "10.0.0.2  apid     Running  OK      Health chec…\n"
            "10.0.0.2  etcd     Failed   ?       größer\n");
}

// Catches: an image without its tag beside a digest of no use, a container name of a pod that is
// cut off, a table that the terminal wraps.
TEST(TableLook, WhatIdentifiesStays) {
  Table images({"NODE", "IMAGE", "DIGEST", "SIZE", "CREATED"});
  images.add("10.5.0.2", "registry.k8s.io/kube-controller-manager:v1.34.4",
             "sha256:278fb9dbcca9518083ad1e11276933a2e96f23de604a3a08cc3c80002767d24c", "22 MB",
             "2026-11-23T20:37:46Z");
  EXPECT_EQ(shown(images.render(), {.columns = 80}),
            "NODE      IMAGE                 DIGEST               SIZE   CREATED\n"
            "10.5.0.2  …ler-manager:v1.34.4  sha256:278fb9dbcca9  22 MB  2026-11-23T20:37:46Z\n");
  Table pods({"NODE", "NAMESPACE", "ID", "IMAGE", "PID", "STATUS"});
  pods.add("10.5.0.2", "k8s.io", "└─ kube-system/kube-apiserver-cp-1:kube-apiserver",
           "registry.k8s.io/kube-apiserver:v1.34.4", "812", "CONTAINER_RUNNING");
  auto text = shown(pods.render(), {.columns = 80});
  EXPECT_THAT(std::string(text.cStr()),
              ::testing::HasSubstr("└─ kube-system/ku…p-1:kube-apiserver"));
  EXPECT_THAT(std::string(text.cStr()), ::testing::HasSubstr("…ver:v1.34.4"));
}

// Catches: colours that move the columns, or colours on words that are not states.
TEST(TableLook, StatesHaveColours) {
  Table table({"NODE", "ID", "STATE"});
  table.add("a", "running", "Running");
  table.add("b", "failed", "Failed");
  table.add("c", "x", "Waiting");
  table.add("d", "y", "new");
  EXPECT_EQ(shown(table.render(), {.color = true}),
            "NODE   ID        STATE\n"
            "a      running   \033[0;32mRunning\033[0m\n"
            "b      failed    \033[0;1;31mFailed\033[0m\n"
            "c      x         \033[0;33mWaiting\033[0m\n"
            "d      y         new\n");
}

// Catches: rows that wrap on a usual terminal because of a column with the same value in all rows;
// an identifying column that is left out; a column that is left out although there is room.
TEST(TableLook, SpareColumnsGoBeforeRowsWrap) {
  constexpr kj::StringPtr kMembers =
      "NODE        NAMESPACE   TYPE     ID                VERSION   HOSTNAME          MACHINE TYPE "
      "  OS\n"
      "10.63.0.2   cluster     Member   rows-1-master-1   1         rows-1-master-1   controlplane "
      "  Talos (v0.100.0)\n"
      "10.63.0.2   cluster     Member   rows-1-worker-1   2         rows-1-worker-1   worker         Talos (v0.100.0)\n"_kj;
  auto narrow = shown(kMembers, {.columns = 80, .color = false});
  EXPECT_EQ(
      narrow,
      "NODE       ID               VERSION  HOSTNAME         MACHINE TYPE  OS\n"
      "10.63.0.2  rows-1-master-1  1        rows-1-master-1  controlplane  Talos (v0.1…\n"
      "10.63.0.2  rows-1-worker-1  2        rows-1-worker-1  worker        Talos (v0.1…\n"_kj);
  EXPECT_EQ(shown(kMembers, {.columns = 120, .color = false}), kMembers);
  constexpr kj::StringPtr kMixed =
      "NAMESPACE   ID\n"
      "default     aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n"
      "other       aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n"_kj;
  EXPECT_TRUE(shown(kMixed, {.columns = 40, .color = false}).startsWith("NAMESPACE  ID\n"));
}

constexpr TableLook kLook{.columns = 30, .color = false};

// Catches: tables that pile up; remains of a longer table before; an error that is overwritten.
TEST(LiveLines, AreRewrittenUntilSomethingElseIsWritten) {
  TestConsole console;
  console.terminal = true;
  LiveLines lines(console);
  lines.show("NODE   ID\na      1\n", kLook);
  EXPECT_EQ(console.takeOut(), "\rNODE   ID\x1b[K\n\ra      1\x1b[K\n\x1b[J");
  lines.show("NODE   ID\n", kLook);
  EXPECT_EQ(console.takeOut(), "\x1b[2A\rNODE   ID\x1b[K\n\x1b[J");
  console.err("b: no answer\n"_kj);
  lines.show("NODE   ID\n", kLook);
  EXPECT_EQ(console.takeOut(), "\rNODE   ID\x1b[K\n\x1b[J");
  lines.show("NODE   ID\n", kLook);
  EXPECT_EQ(console.takeOut(), "\x1b[1A\rNODE   ID\x1b[K\n\x1b[J");
}

// Catches: a line that wraps, or a table that is higher than the screen and would be drawn below
// itself; colours that are cut in the middle.
TEST(LiveLines, FitTheScreen) {
  TestConsole console;
  console.terminal = true;
  LiveLines lines(console);
  kj::Vector<kj::String> rows;
  rows.add(kj::str("NODE   READY\n"));
  for (int i = 10; i < 40; ++i) rows.add(kj::str("n", i, "    True\n"));
  lines.show(kj::strArray(rows, ""), kLook);
  auto text = console.takeOut();
  EXPECT_TRUE(text.endsWith("\rn30    True\x1b[K\n\r… and 9 more\x1b[K\n\x1b[J")) << text.cStr();
  lines.show("NODE   READY\na      True\n", {.columns = 9, .color = true});
  EXPECT_EQ(console.takeOut(), "\x1b[23A\rNODE  REA\x1b[K\n\ra     Tru\x1b[K\n\x1b[J");
  lines.show("NODE   READY\na      True\n", {.columns = 80, .color = true});
  EXPECT_EQ(console.takeOut(),
            "\x1b[2A\rNODE   READY\x1b[K\n\ra      \033[0;32mTrue\033[0m\x1b[K\n\x1b[J");
}

}  // namespace
}  // namespace talos::talosctl
