// Nodes with configs, for tests of the commands that change configs.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "common/base/file.h"
#include "talosctl/commands/test-cluster.h"

namespace talos::talosctl {

struct Configs : public ClusterTest {
  Configs() {
    node("10.0.0.2").config.document = good("one");
    node("10.0.0.3").config.document = good("two");
    write("good.yaml", good("new"));
    c.test.environment.insert(kj::str("TMPDIR"), kj::str(c.folder));
  }
  FakeConfig& config(kj::StringPtr address) { return node(address).config; }
  kj::String good(kj::StringPtr hostname) {
    return kj::str(
        "version: v1alpha1\nmachine:\n  type: worker\n  token: abcdef.0123456789abcdef\n",
        "  network:\n    hostname: ", hostname, "\n  install:\n    disk: /dev/vda\n",
        "cluster:\n  controlPlane:\n    endpoint: https://10.0.0.2:6443\n",
        "  token: abcdef.0123456789abcdef\n  ca:\n    crt: ",
        TestCluster::base64(c.authority.certificate), "\n");
  }
  kj::String path(kj::StringPtr name) { return kj::str(c.folder, "/", name); }
  kj::String write(kj::StringPtr name, kj::StringPtr text, mode_t mode = 0600) {
    writeFileAtomically(path(name), text, mode);
    return path(name);
  }
  // Sets an editor that runs these shell lines on "$f". `runs` counts its runs.
  void editor(kj::StringPtr lines) {
    write("editor", kj::str("#!/bin/sh\nset -e\nf=$2\necho >>", path("runs"), "\n", lines, "\n"),
          0700);
    c.test.environment.upsert(kj::str("TALOS_EDITOR"), kj::str(path("editor"), " --flag"),
                              [](auto& old, auto&& now) { old = kj::mv(now); });
  }
  size_t runs() { return tryReadFile(path("runs")).orDefault(kj::str()).size(); }
  kj::String file() { return path("good.yaml"); }
  // Returns the number of files that editors have not removed.
  unsigned leftovers() {
    unsigned count = 0;
    for (auto& entry : std::filesystem::directory_iterator(c.folder.cStr())) {
      if (entry.path().filename().string().starts_with("talosctl-edit-")) ++count;
    }
    return count;
  }
};

}  // namespace talos::talosctl
