#include "machined/kubernetes/manifests/manifest-text.h"

#include <gtest/gtest.h>

namespace talos::machined {
namespace {

TEST(ManifestText, ValuesAreScalarsWhateverTheyAre) {
  EXPECT_EQ(
      ManifestText("a: ${x}\nb: |\n  @{y} $(NODE)\n").set("x", "no: # \"").set("y", "raw").fill(),
      "a: \"no: # \\\"\"\nb: |\n  raw $(NODE)\n"_kj);
}

TEST(ManifestText, AListIsALineForEachValue) {
  kj::Vector<kj::String> items;
  items.add(kj::str("--a=b"));
  items.add(kj::str("true"));
  EXPECT_EQ(ManifestText("x:\n  - ${l*}\ny: 1\n").set("l", kj::mv(items)).fill(),
            "x:\n  - --a=b\n  - \"true\"\ny: 1\n"_kj);
}

TEST(ManifestText, ConditionsCanBeInEachOther) {
  auto filled = [](bool a, bool b) {
    return ManifestText("1\n#if a\n2\n  #if b\n3\n  #end\n#end\n4\n")
        .setIf("a", a)
        .setIf("b", b)
        .fill();
  };
  EXPECT_EQ(filled(true, true), "1\n2\n3\n4\n"_kj);
  EXPECT_EQ(filled(true, false), "1\n2\n4\n"_kj);
  EXPECT_EQ(filled(false, true), "1\n4\n"_kj);
}

// Catches: a template with a misspelled name; a value that ends the block that it is in.
TEST(ManifestText, WhatIsMissingIsAnException) {
  EXPECT_NE(kj::runCatchingExceptions([] { ManifestText("${x}\n").fill(); }), nullptr);
  EXPECT_NE(kj::runCatchingExceptions([] { ManifestText("- ${x*}\n").fill(); }), nullptr);
  EXPECT_NE(kj::runCatchingExceptions([] { ManifestText("#if x\n#end\n").fill(); }), nullptr);
  EXPECT_NE(kj::runCatchingExceptions([] { ManifestText("@{x}\n").set("x", "a\nb").fill(); }),
            nullptr);
}

}  // namespace
}  // namespace talos::machined
