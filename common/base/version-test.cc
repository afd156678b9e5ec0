#include "common/base/version.h"

#include <gtest/gtest.h>

namespace talos {

// Catches a build that lost its commit (an empty string in every bug report) or a date in another
// form.
TEST(Version, SaysWhatWasBuilt) {
  auto v = buildVersion();
  EXPECT_TRUE(v.tag.startsWith("v"));
  EXPECT_GE(v.sha.size(), 4u);
  ASSERT_EQ(v.built.size(), 20u);
  EXPECT_EQ(v.built[10], 'T');
  EXPECT_EQ(v.built[19], 'Z');
  EXPECT_TRUE(v.compiler.startsWith("clang 1"));
}

// Catches: a config of a talosctl without REGISTRY= after which a node tries for ever to fetch an
// image that no registry has; an image of another release that the node takes for its own.
TEST(InstallerName, StandsForTheRunningSystem) {
  auto tag = buildVersion().tag;
  EXPECT_EQ(installerImage(), kj::str(installerRepository(), ":", tag));
  EXPECT_TRUE(isOwnInstaller(installerImage()));
  EXPECT_TRUE(isOwnInstaller(kj::str(kUnpublishedInstaller, ":", tag)));
  EXPECT_TRUE(isOwnInstaller(kj::str(kFormerInstaller, ":", tag)));
  EXPECT_FALSE(isOwnInstaller(kj::str(installerRepository(), ":v0.0.1")));
  EXPECT_FALSE(isOwnInstaller(kj::str(installerImage(), "-site1")));
  EXPECT_FALSE(isOwnInstaller(kj::str("registry.example.com/other/installer:", tag)));
  EXPECT_FALSE(isOwnInstaller(""));
}

}  // namespace talos
