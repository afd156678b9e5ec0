#include "common/config/rules/containerd-part.h"

#include <gtest/gtest.h>
#include <string.h>

namespace talos::config {
namespace {

constexpr kj::StringPtr kSystem =
    "version = 2\n"
    "[plugins.\"io.containerd.grpc.v1.cri\"]\nsandbox_image = \"pause\"\n"
    "[plugins.\"io.containerd.grpc.v1.cri\".registry]\nconfig_path = \"/certs.d\"\n"_kj;

// Returns the mistakes, one a line.
std::string mistakesOf(ContainerdPart& part, kj::StringPtr fragment) {
  std::string lines;
  for (auto& mistake : part.add(fragment.asArray())) {
    auto line = kj::str(mistake.warning ? "warning: " : "", mistake.message,
                        mistake.hint.size() > 0 ? "; " : "", mistake.hint);
    lines += (lines.empty() ? "" : "\n") + std::string(line.cStr());
  }
  return lines;
}
std::string mistakesOf(kj::StringPtr fragment) {
  ContainerdPart part;
  return mistakesOf(part, fragment);
}

// Catches: a fragment that replaces the section of the plugin, so that mirrors and credentials are
// not used; a value of the user that the system's value hides.
TEST(ContainerdPart, FragmentsAreMergedIntoTheSystemsPart) {
  ContainerdPart part;
  EXPECT_EQ("", mistakesOf(part,
                           "[plugins]\n  [plugins.\"io.containerd.grpc.v1.cri\"]\n"
                           "    enable_unprivileged_ports = true\n"
                           "    sandbox_image = \"mine\"\n"));
  EXPECT_EQ("", mistakesOf(part, "version = 2\n[metrics]\naddress = \"0.0.0.0:11234\"\n"));
  EXPECT_EQ(
      "version = 2\n\n"
      "[metrics]\naddress = \"0.0.0.0:11234\"\n\n"
      "[plugins.\"io.containerd.grpc.v1.cri\"]\n"
      "enable_unprivileged_ports = true\nsandbox_image = \"mine\"\n\n"
      "[plugins.\"io.containerd.grpc.v1.cri\".registry]\nconfig_path = \"/certs.d\"\n",
      std::string(part.over(kSystem.asArray()).cStr()));
}

// Catches: a fragment with which containerd does not start, or runs without Kubernetes' part.
TEST(ContainerdPart, WhatContainerdRefusesIsAnError) {
  struct {
    kj::StringPtr fragment;
    const char* mistakes;
  } rows[] = {
      {"[plugins\n", "not valid TOML: line 1, column 9: table header: expected ']'"},
      {"[plugins.cri]\nstream_server_port = \"1\"\n",
       "plugins: \"cri\" is not the name of a plugin in version 2; use "
       "[plugins.\"io.containerd.grpc.v1.cri\"]"},
      {"[plugins]\n\"io.containerd.grpc.v1.cri\" = 1\n",
       "plugins: \"io.containerd.grpc.v1.cri\" must be a table of its settings"},
      {"disabled_plugins = [\"cri\"]\n",
       "disabled_plugins has an item that is not the name of a plugin in version 2; for example "
       "\"io.containerd.snapshotter.v1.zfs\""},
      {"[plugins.\"io.containerd.grpc.v1.cri\".registry.mirrors.\"docker.io\"]\n"
       "endpoint = [\"http://m\"]\n",
       "registry.mirrors cannot be used with the system's config_path; use "
       "machine.registries.mirrors"},
      {"[plugins.\"io.containerd.grpc.v1.cri\".registry.configs.\"h:5\".tls]\n"
       "insecure_skip_verify = true\n",
       "registry.configs: tls of \"h:5\" cannot be used with the system's config_path; use "
       "machine.registries.config"},
      {"[plugins.\"io.containerd.grpc.v1.cri\"]\nregistry = \"x\"\n",
       "plugins.\"io.containerd.grpc.v1.cri\".registry must be a table, not a text"},
      {"[plugins.\"io.containerd.grpc.v1.cri\".registry]\nconfig_path = \"/x\"\n"
       "[plugins.\"io.containerd.grpc.v1.cri\".registry.mirrors.\"docker.io\"]\n"
       "endpoint = [\"http://m\"]\n",
       "registry.mirrors cannot be used with the system's config_path; use "
       "machine.registries.mirrors"},
      {"disabled_plugins = \"io.containerd.snapshotter.v1.zfs\"\n",
       "disabled_plugins must be a list"},
      {"plugins = 1\n", "plugins must be a table, not a whole number"},
  };
  for (auto& row : rows) EXPECT_EQ(row.mistakes, mistakesOf(row.fragment)) << row.fragment.cStr();
}

// Catches: a config for a later containerd that is refused, or that has no effect without a word.
TEST(ContainerdPart, WhatALaterContainerdReadsIsAWarning) {
  EXPECT_EQ(
      "warning: plugins: \"io.containerd.cri.v1.images\" has no effect: only containerd 2 has this "
      "plugin; use [plugins.\"io.containerd.grpc.v1.cri\"]",
      mistakesOf("[plugins.\"io.containerd.cri.v1.images\"]\n  discard_unpacked_layers = false\n"));
  ContainerdPart part;
  EXPECT_EQ(
      "warning: version is not used: containerd of this system reads version 2; use the names of "
      "version 2, and version = 2",
      mistakesOf(part, "version = 3\n"));
  EXPECT_TRUE(part.over(kSystem.asArray()).startsWith("version = 2\n"));
}

// Catches: two entries of one config of which the second silently wins; a refused fragment that is
// merged in part.
TEST(ContainerdPart, FragmentsMustNotContradictEachOther) {
  ContainerdPart part;
  auto name = "plugins.\"io.containerd.grpc.v1.cri\"."_kj;
  EXPECT_EQ("", mistakesOf(part, kj::str(name, "sandbox_image = \"a\"")));
  EXPECT_EQ("plugins.\"io.containerd.grpc.v1.cri\".sandbox_image has another value already",
            mistakesOf(part, kj::str(name, "drain_exec_sync_io_timeout = \"1s\"\n", name,
                                     "sandbox_image = \"b\"")));
  EXPECT_EQ("", mistakesOf(part, kj::str(name, "sandbox_image = \"a\"")));
  auto merged = part.over(kSystem.asArray());
  EXPECT_EQ(nullptr, strstr(merged.cStr(), "drain_exec_sync_io_timeout"));
  EXPECT_NE(nullptr, strstr(merged.cStr(), "sandbox_image = \"a\"\n"));
}

// Catches: a further runtime with which containerd does not start, because its default one is not
// there any more; a user's runc that is written over.
TEST(ContainerdPart, AFurtherRuntimeLeavesTheDefaultOne) {
  auto runtimes = "plugins.\"io.containerd.grpc.v1.cri\".containerd.runtimes."_kj;
  ContainerdPart part;
  EXPECT_EQ("", mistakesOf(part, kj::str(runtimes, "own.runtime_type = \"x\"\n")));
  auto merged = part.over(kSystem.asArray());
  EXPECT_NE(nullptr, strstr(merged.cStr(), "runtime_type = \"io.containerd.runc.v2\"\n"));
  EXPECT_EQ("", mistakesOf(part, kj::str(runtimes, "runc.runtime_type = \"mine\"\n")));
  merged = part.over(kSystem.asArray());
  EXPECT_EQ(nullptr, strstr(merged.cStr(), "io.containerd.runc.v2"));
  EXPECT_NE(nullptr, strstr(merged.cStr(), "runtime_type = \"mine\"\n"));
}

}  // namespace
}  // namespace talos::config
