#include "tests/schemas/schema-growth.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace talos {
namespace {

using ::testing::HasSubstr;

struct SchemaGrowthTest : public ::testing::Test {
  ~SchemaGrowthTest() noexcept override {}
  kj::Own<kj::Filesystem> disk = kj::newDiskFilesystem();
  kj::Own<const kj::ReadableDirectory> imports =
      disk->getRoot().openSubdir(kj::Path({"usr", "include"}));

  std::string problemsOf(kj::StringPtr before, kj::StringPtr now) {
    auto directory = [](kj::StringPtr text) {
      auto result = kj::newInMemoryDirectory(kj::nullClock());
      if (text == nullptr) return result;
      result->openFile(kj::Path("a.capnp"), kj::WriteMode::CREATE)
          ->writeAll(kj::str("@0xd3a1b7c2e94f6999;\n", text));
      return result;
    };
    auto released = directory(before), current = directory(now);
    auto growth = compareSchemas(*released, *current, *imports);
    EXPECT_GT(growth.compared, 0u);
    return kj::strArray(growth.problems, "\n").cStr();
  }
};

// Catches: a field, value or method of a release that is gone or means something else: a client or
// a node one version older reads nonsense, or calls another method.
TEST_F(SchemaGrowthTest, ASchemaMayOnlyGrow) {
  struct Row {
    kj::StringPtr before, now, problem;  // without a problem: it has only grown
  };
  const Row rows[] = {
      {"struct S { a @0 :Text; }", "struct S { a @0 :Text; b @1 :UInt8; } struct T {}", ""},
      {"enum E { a @0; }", "enum E { a @0; b @1; }", ""},
      {"interface I { f @0 (); }", "interface I { f @0 (x :Text); g @1 (); }", ""},
      {"struct S { union { a @0 :Text; b @1 :Text; } }",
       "struct S { union { a @0 :Text; b @1 :Text; c @2 :Bool; } }", ""},
      {"struct S { a @0 :Text; b @1 :Text; }", "struct S { a @0 :Text; }",
       "rpc/a.capnp: S: field \"b\" (number 1 of the release) was removed"},
      {"struct S { a @0 :Text; b @1 :Text; }", "struct S { b @0 :Text; a @1 :Text; }",
       "rpc/a.capnp: S: field \"a\" (number 0 of the release) became \"b\""},
      {"struct S { a @0 :UInt32; }", "struct S { a @0 :UInt64; }",
       "rpc/a.capnp: S: field \"a\" (number 0 of the release) changed its type"},
      {"struct S { a @0 :UInt32 = 1; }", "struct S { a @0 :UInt32 = 2; }", "default value"},
      {"struct S { a @0 :List(Text); }", "struct S { a @0 :List(UInt8); }",
       "field \"a\" (number 0 of the release) changed its type"},
      {"struct S { union { a @0 :Text; b @1 :Text; } }",
       "struct S { a @0 :Text; union { b @1 :Text; c @2 :Text; } }", "rpc/a.capnp: S: "},
      {"struct S { g :group { a @0 :Text; b @1 :Text; } }",
       "struct S { g :group { a @0 :Text; c @1 :Text; } }", "rpc/a.capnp: S.g: field \"b\""},
      {"enum E { a @0; b @1; }", "enum E { a @0; c @1; b @2; }",
       "rpc/a.capnp: E: enumerant \"b\" (number 1 of the release) became \"c\""},
      {"interface I { f @0 (); g @1 (); }", "interface I { f @0 (); }",
       "rpc/a.capnp: I: method \"g\" (number 1 of the release) was removed"},
      {"interface I { f @0 (x :Text); }", "interface I { f @0 (x :Bool); }", "I.f$Params"},
      {"struct S {} struct T {} interface I { f @0 S; }",
       "struct S {} struct T {} interface I { f @0 T; }", "rpc/a.capnp: I: "},
      {"struct S {}", "struct T {}", "rpc/a.capnp: S: the type was removed, renamed or moved"},
      {"struct S {}", "enum S { a @0; }", "rpc/a.capnp: S: "},
      {"struct S {}", nullptr, "rpc/a.capnp: S: the type was removed"}};
  for (auto& row : rows) {
    SCOPED_TRACE(row.now.cStr());
    auto problems = problemsOf(row.before, row.now);
    if (row.problem == "") {
      EXPECT_EQ("", problems);
    } else {
      EXPECT_THAT(problems, HasSubstr(row.problem.cStr()));
      EXPECT_THAT(problems, HasSubstr("; keep it"));
    }
  }
}

// Catches: a program of today that a client or node of the last release does not understand.
TEST_F(SchemaGrowthTest, WhatTheLastReleaseSpeaksIsUnderstood) {
  auto source = disk->getRoot().openSubdir(disk->getCurrentPath().eval(TALOS_SOURCE_DIR),
                                           kj::WriteMode::MODIFY);
  auto released = source->openSubdir(kj::Path({"tests", "schemas", "released"}));
  auto growth = compareSchemas(*released, *source->openSubdir(kj::Path("rpc")), *imports);
  EXPECT_GT(growth.compared, 400u);
  EXPECT_EQ("", std::string(kj::strArray(growth.problems, "\n").cStr()));
}

}  // namespace
}  // namespace talos
