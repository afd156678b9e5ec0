#include "talosctl/cluster/containers/host-check.h"

#include <errno.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace talos::container {
namespace {

using ::testing::HasSubstr;

std::string problem(const HostFeatures& host) {
  KJ_IF_MAYBE (text, missingFeature(host)) return text->cStr();
  return "";
}

// Catches: a feature that is not checked, a message without a remedy, and the wrong feature named
// if a host lacks several (without root nothing else can be tried).
TEST(HostCheck, WhatAHostLacksIsSaidWithWhatToDo) {
  EXPECT_EQ(problem({}), "");
  EXPECT_THAT(problem({.root = false}), HasSubstr("does not run as root; use sudo -E"));
  EXPECT_THAT(problem({.root = false, .cgroup2 = false}), HasSubstr("as root"));
  EXPECT_THAT(problem({.cgroup2 = false}), HasSubstr("no cgroup v2; mount it with `mkdir"));
  EXPECT_THAT(problem({.squashfs = false}), HasSubstr("no squashfs; load the module squashfs"));
  EXPECT_THAT(problem({.overlay = false}), HasSubstr("no overlayfs; load the module overlay"));
  EXPECT_THAT(problem({.loopDevices = false}),
              HasSubstr("/dev/loop-control; load the module loop"));
  EXPECT_THAT(problem({.refused = HostFeatures::RefusedNamespace{"pid", ENOSPC}}),
              HasSubstr("no pid namespace left; raise user.max_pid_namespaces"));
  EXPECT_THAT(problem({.refused = HostFeatures::RefusedNamespace{"mnt", EPERM}}),
              HasSubstr("does not allow mnt namespaces: Operation not permitted; if this is a "
                        "container itself, it needs the capability SYS_ADMIN"));
  EXPECT_THAT(problem({.refused = HostFeatures::RefusedNamespace{"cgroup", EINVAL}}),
              HasSubstr("cgroup namespaces: Invalid argument; its kernel lacks them"));
}

}  // namespace
}  // namespace talos::container
