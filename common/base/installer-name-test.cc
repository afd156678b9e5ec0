#include "common/base/installer-name.h"

#include <gtest/gtest.h>

#include "common/base/version.h"

namespace talos {

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
