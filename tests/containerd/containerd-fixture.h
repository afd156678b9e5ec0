// For tests: Debian's containerd with the image's base file and machined's files for
// machine.registries, in a folder that is removed after the test.
#pragma once

#include <gmock/gmock.h>
#include <kj/encoding.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mount.h>

#include <optional>
#include <string>
#include <vector>

#include "common/base/file.h"
#include "common/config/config.h"
#include "common/config/rules/containerd-part.h"
#include "machined/system/containerd-registries.h"
#include "tests/containerd/model-registry.h"
#include "tests/harness/process.h"

namespace talos::test {

using harness::Background;
using harness::run;

inline std::string base64(kj::StringPtr text) {
  return kj::encodeBase64(text.asBytes()).cStr();
}

class ContainerdTest : public testing::Test {
 public:
  ~ContainerdTest() noexcept override {}

 protected:
  kj::String folder;
  pki::CertificateAndKey authority = pki::makeAuthority({.organization = "registry"});

  ContainerdTest() {
    char name[] = "/tmp/containerd-test-XXXXXX";
    folder = kj::str(mkdtemp(name));
    makeDirectories(kj::str(folder, "/user"));
  }
  void TearDown() override {
    daemon.reset();
    removeTree(folder);
  }
  std::string path(const std::string& name) { return std::string(folder.cStr()) + "/" + name; }
  void put(const std::string& name, kj::StringPtr content) {
    writeFileAtomically(path(name).c_str(), content.asArray(), 0600);
  }

  // Writes the configuration as machined does; `yaml` is the text below machine.registries.
  // `part` is the user's part of containerd's configuration.
  void configure(const std::string& yaml, machined::OomScores scores = machined::OomScores::kAny,
                 kj::StringPtr part = "") {
    auto text = kj::str("machine:\n  registries:\n", yaml, "\n");
    auto config = config::parse(text.asArray(), "test");
    for (auto& p : config.problems()) {
      if (p.path.startsWith("machine.registries")) ADD_FAILURE() << p.toString().cStr();
    }
    auto cri = kj::str(folder, "/cri");
    auto files = machined::registryFiles(config.get().getMachine().getRegistries(), cri, scores);
    if (part.size() > 0) {
      config::ContainerdPart merging;
      for (auto& mistake : merging.add(part.asArray())) ADD_FAILURE() << mistake.message.cStr();
      auto parts = kj::arr(kj::str(part));
      machined::addContainerdParts(files, parts,
                                   merging.over(machined::systemPart(files).asArray()));
    }
    machined::writeRegistryFiles(cri, files);
  }

  // Returns the image's base file, with the folders of this test.
  std::string base() {
    auto text = harness::slurp(getenv("BASE_FILE"));
    auto replace = [&](const std::string& from, const std::string& to) {
      auto at = text.find(from);
      EXPECT_NE(std::string::npos, at) << from;
      if (at != std::string::npos) text.replace(at, from.size(), to);
    };
    replace("/system/etc/cri/conf.d", path("cri/conf.d"));
    replace("/var/cri/conf.d", path("user"));
    put("base.toml", text.c_str());
    return path("base.toml");
  }
  std::string merged() {
    auto result = run({"containerd", "--config", base(), "config", "dump"});
    EXPECT_EQ(0, result.status) << result.err;
    return result.out;
  }

  // Returns the layer of an image with the sample program.
  std::string layer() {
    auto tree = path("tree");
    makeDirectories(kj::str(tree.c_str(), "/etc"));
    EXPECT_EQ(0, run({"cp", getenv("SAMPLE"), tree + "/sample"}).status);
    auto made = run({"tar", "-C", tree, "-cf", path("layer.tar"), "sample", "etc"});
    EXPECT_EQ(0, made.status) << made.err;
    return harness::slurp(path("layer.tar"));
  }

  std::optional<Background> daemon;
  std::vector<std::string> ctr(std::vector<std::string> words) {
    words.insert(words.begin(), {"ctr", "--address", path("socket")});
    return words;
  }
  void start() {
    daemon.emplace(std::vector<std::string>{"containerd", "--config", base(), "--address",
                                            path("socket"), "--root", path("root"), "--state",
                                            path("state")});
    ASSERT_TRUE(harness::eventually([&]() { return run(ctr({"version"})).status == 0; }, 60))
        << daemon->err();
  }
  // Returns the line with the state of the plugin for Kubernetes.
  std::string stateOfCri() {
    auto plugins = run(ctr({"plugins", "list"}));
    for (auto& line : harness::lines(plugins.out)) {
      if (line.find("grpc.v1") == std::string::npos) continue;
      if (line.find(" cri ") != std::string::npos) return line;
    }
    return "no such plugin: " + plugins.out + plugins.err;
  }
  // Fetches an image; returns why this failed, or an empty text.
  std::string fetch(const std::string& image) {
    auto result = run(ctr({"content", "fetch", "--hosts-dir", path("cri/certs.d"), image}));
    return result.status == 0 ? "" : result.err + result.out;
  }
};

}  // namespace talos::test
