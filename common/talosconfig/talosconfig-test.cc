#include "common/talosconfig/talosconfig.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <kj/encoding.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/testing/printing.h"

namespace talos {
namespace {

Context context(kj::StringPtr endpoint) {
  Context c;
  c.endpoints.add(kj::str(endpoint));
  c.ca = kj::str("ca");
  c.certificate = kj::str("crt");
  c.key = pki::Pem(kj::str("key"));
  return c;
}

template <typename F>
kj::String failureOf(F&& f) {
  KJ_IF_MAYBE (e, kj::runCatchingExceptions([&]() { f(); }))
    return kj::str(nameOf(kindOf(*e)), ": ", messageOf(*e));
  return kj::str("no failure");
}

constexpr kj::StringPtr kText =
    "context: b\n"
    "contexts:\n"
    "    a:\n"
    "        endpoints: []\n"
    "    b:\n"
    "        endpoints:\n"
    "            - 10.5.0.2\n"
    "        nodes:\n"
    "            - 10.5.0.2\n"
    "            - 10.5.0.3\n"
    "        ca: Y2E=\n"
    "        crt: Y3J0\n"
    "        key: a2V5\n"_kj;

// Catches: a key of the file that is lost or renamed when it is written again.
TEST(Talosconfig, WritesWhatItReads) {
  auto config = Talosconfig::parse(kText, "f");
  EXPECT_EQ(kText, config.toYaml());
  auto credentials = config.resolve().credentials();
  EXPECT_EQ(kj::StringPtr("ca"), credentials.authorities);
  EXPECT_EQ(kj::StringPtr("key"), kj::StringPtr(credentials.key));
}

// Catches: a link to a file elsewhere that becomes a file, and a user's file that becomes root's.
TEST(Talosconfig, ALinkStaysALinkAndTheOwnerStays) {
  char name[] = "/tmp/talosconfig-test-XXXXXX";
  kj::String folder = kj::str(mkdtemp(name));
  KJ_DEFER(removeTree(folder));
  auto real = kj::str(folder, "/real"), link = kj::str(folder, "/link");
  writeFileAtomically(real, ""_kj, 0644);
  bool root = geteuid() == 0;
  if (root) {
    KJ_SYSCALL(chown(folder.cStr(), 4711, 4712));
    KJ_SYSCALL(chown(real.cStr(), 4711, 4712));
    setenv("SUDO_UID", "4711", 1);
    setenv("SUDO_GID", "4712", 1);
  }
  KJ_DEFER(for (auto name : {"SUDO_UID", "SUDO_GID"}) unsetenv(name));
  KJ_SYSCALL(symlink("real", link.cStr()));
  Talosconfig config;
  config.add("a", context("10.0.0.1"));
  config.save(link);
  struct stat found;
  KJ_SYSCALL(lstat(link.cStr(), &found));
  EXPECT_TRUE(S_ISLNK(found.st_mode));
  KJ_SYSCALL(stat(real.cStr(), &found));
  EXPECT_EQ(found.st_mode & 07777, 0600u);
  EXPECT_EQ(found.st_uid, root ? 4711u : geteuid());
  EXPECT_EQ(Talosconfig::load(real).currentName(), "a"_kj);
}

// Catches: an endpoint of a node's choice, a key that another client understands and we do not.
TEST(Talosconfig, WhatANodeSendsIsOneIdentity) {
  auto authority = pki::makeAuthority({});
  auto pair = pki::issue(authority.certificate, authority.key, {.server = false});
  auto textWith = [&](kj::StringPtr context, kj::StringPtr more) {
    auto base64 = [](kj::StringPtr pem) { return kj::encodeBase64(pem.asBytes()); };
    return kj::str(
        "context: ", context, "\ncontexts:\n  demo:\n    ca: ", base64(authority.certificate),
        "\n    crt: ", base64(pair.certificate), "\n    key: ", base64(pair.key), "\n", more);
  };
  auto read = [](kj::StringPtr text) {
    return failureOf([&]() {
      auto config = Talosconfig::parseReceived(text, "the file", "demo");
      EXPECT_EQ(config.currentName(), "demo"_kj);
    });
  };
  EXPECT_EQ(read(textWith("demo", "    endpoints: [127.0.0.1]\n")), "no failure"_kj);
  constexpr kj::StringPtr kOne =
      "InvalidArgument: the file is refused: it must have one context, \"demo\""_kj;
  EXPECT_EQ(read(""), kOne);
  EXPECT_EQ(read("context: demo\n"), kOne);
  EXPECT_EQ(read(textWith("other", "")), kOne);
  EXPECT_EQ(read(textWith("demo", "  other: {endpoints: []}\n")), kOne);
  for (auto more :
       {"    endpoints: [10.0.0.9]\n", "    nodes: [10.0.0.9]\n", "    target: 10.0.0.9\n"}) {
    EXPECT_EQ(read(textWith("demo", more)),
              "InvalidArgument: the file is refused: a node must not choose the endpoints and "
              "nodes of a client"_kj);
  }
  auto unknown = read(textWith("demo", "    auth: {siderov1: {identity: a}}\n"));
  EXPECT_NE(strstr(unknown.cStr(), "contexts.demo.auth"), nullptr) << unknown.cStr();
  pair.key = authority.key.clone();
  EXPECT_NE(read(textWith("demo", "")), "no failure"_kj);
}

// Catches: a file whose current context it does not contain, and that so would choose one of ours.
TEST(Talosconfig, MergingChoosesNoContextThatTheOtherFileLacks) {
  Talosconfig mine;
  mine.add("a", context("10.0.0.1"));
  mine.add("b", context("10.0.0.2"));
  auto other = Talosconfig::parse("context: b\ncontexts:\n  c:\n    endpoints: [10.0.0.3]\n", "f");
  mine.merge(kj::mv(other));
  EXPECT_EQ(kj::StringPtr("a"), mine.currentName());
}

// Catches: the deprecated key dropped on reading or kept on writing.
TEST(Talosconfig, ReadsTheOldTarget) {
  auto config = Talosconfig::parse(
      "context: a\ncontexts:\n  a:\n    target: 10.0.0.1\n    endpoints: [10.0.0.2]\n", "f");
  EXPECT_EQ(kj::str("context: a\ncontexts:\n    a:\n        endpoints:\n            - 10.0.0.2\n   "
                    "         - 10.0.0.1\n"),
            config.toYaml());
}

// Catches: a wrong context used silently; messages without a remedy.
TEST(Talosconfig, ResolvesContexts) {
  auto config = Talosconfig::parse(kText, "f");
  EXPECT_EQ(1, config.resolve().endpoints.size());
  EXPECT_EQ(0, config.resolve("a").endpoints.size());
  EXPECT_EQ(
      kj::str("NotFound: unknown context \"c\" in the client configuration; `talosctl config "
              "contexts` lists "
              "them"),
      failureOf([&]() { Talosconfig::parse("contexts: {production: {}}\n", "f").resolve("c"); }));
  EXPECT_EQ(
      kj::str("NotFound: unknown context \"prodction\" in the client configuration; did you mean "
              "\"production\"?"),
      failureOf(
          [&]() { Talosconfig::parse("contexts: {production: {}}\n", "f").resolve("prodction"); }));
  EXPECT_TRUE(failureOf([&]() {
                Talosconfig().resolve();
              }).startsWith("InvalidArgument: the client configuration is empty"));
  EXPECT_TRUE(failureOf([&]() {
                Talosconfig::parse("contexts: {a: {}}\n", "f").resolve();
              }).startsWith("InvalidArgument: no current context"));
  EXPECT_TRUE(failureOf([&]() {
                config.resolve("a").credentials();
              }).startsWith("InvalidArgument: the context lacks ca"));
  config.select("a");
  EXPECT_EQ(kj::StringPtr("a"), config.currentName());
  EXPECT_TRUE(failureOf([&]() { config.select("x-y-z"); }).startsWith("NotFound"));
}

// Catches: a broken file that is taken for an empty one (and then overwritten).
TEST(Talosconfig, NamesThePlaceOfAMistake) {
  EXPECT_TRUE(failureOf([]() {
                Talosconfig::parse("contexts:\n  a:\n    ca: x\n", "/h/config");
              }).startsWith("InvalidArgument: /h/config:3:9: contexts.a.ca: not valid base64"));
  EXPECT_TRUE(failureOf([]() {
                Talosconfig::parse("a: b: c\n", "f");
              }).startsWith("InvalidArgument: f:1:5: "));
  EXPECT_EQ(0, Talosconfig::parse(" \n", "f").contexts().size());
}

// Catches: a context overwritten by a merge, renames not reported, the wrong context made current.
TEST(Talosconfig, MergesUnderNewNames) {
  Talosconfig config;
  config.add("x", context("1"));
  config.add("x-1", context("2"));
  Talosconfig other;
  other.add("x", context("3"));
  other.add("y", context("4"));
  auto renames = config.merge(kj::mv(other));
  ASSERT_EQ(1, renames.size());
  EXPECT_EQ(kj::StringPtr("x"), renames[0].from);
  EXPECT_EQ(kj::StringPtr("x-2"), renames[0].to);
  EXPECT_EQ(kj::StringPtr("x-2"), config.currentName());
  EXPECT_EQ(4, config.contexts().size());
  EXPECT_EQ(kj::StringPtr("1"), config.resolve("x").endpoints[0]);
  EXPECT_EQ(kj::StringPtr("3"), config.resolve().endpoints[0]);

  Talosconfig withoutCurrent = Talosconfig::parse("contexts: {z: {}}\n", "f");
  EXPECT_EQ(0, config.merge(kj::mv(withoutCurrent)).size());
  EXPECT_EQ(kj::StringPtr("x-2"), config.currentName());
}

// Catches: a renamed context that is no longer the current one; a context that replaces another
// one of this name; a file that is changed by a refused rename.
TEST(Talosconfig, RenameKeepsTheContextAndWhetherItIsTheCurrentOne) {
  Talosconfig config;
  config.add("x", context("1"));
  config.add("y", context("2"));
  config.rename("x", "w");
  EXPECT_EQ(kj::StringPtr("w"), config.currentName());
  EXPECT_EQ(kj::StringPtr("1"), config.resolve("w").endpoints[0]);
  config.rename("y", "z");
  EXPECT_EQ(kj::StringPtr("w"), config.currentName());
  auto before = config.toYaml();
  struct {
    kj::StringPtr from, to, error;
  } refused[] = {{"w"_kj, "z"_kj, "the context \"z\" already exists"_kj},
                 {"w"_kj, "w"_kj, "the context \"w\" already exists"_kj},
                 {"x"_kj, "v"_kj, "unknown context \"x\""_kj},
                 {""_kj, "v"_kj, "context name is empty"_kj},
                 {"w"_kj, ""_kj, "context name is empty"_kj}};
  for (auto& row : refused) {
    auto e = kj::runCatchingExceptions([&]() { config.rename(row.from, row.to); });
    EXPECT_THAT(messageOf(KJ_ASSERT_NONNULL(e)).cStr(), ::testing::HasSubstr(row.error.cStr()));
    EXPECT_EQ(before, config.toYaml());
  }
}

// Catches: a private key that others can read; a missing directory that fails the first command of
// a user.
TEST(Talosconfig, SavesForItsOwnerOnly) {
  char folder[] = "/tmp/talosconfig-test-XXXXXX";
  ASSERT_NE(nullptr, mkdtemp(folder));
  KJ_DEFER(removeTree(folder));
  auto path = kj::str(folder, "/.talos/config");
  EXPECT_EQ(0, Talosconfig::load(path).contexts().size());
  Talosconfig config;
  config.add("x", context("1"));
  config.save(path);
  struct stat info;
  ASSERT_EQ(0, stat(path.cStr(), &info));
  EXPECT_EQ(0600, info.st_mode & 07777);
  ASSERT_EQ(0, stat(kj::str(folder, "/.talos").cStr(), &info));
  EXPECT_EQ(0700, info.st_mode & 07777);
  EXPECT_EQ(kj::StringPtr("1"), Talosconfig::load(path).resolve().endpoints[0]);
}

}  // namespace
}  // namespace talos
