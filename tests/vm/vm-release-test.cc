// A release as its users get it: its installer images in a registry, under the names that its
// talosctl prints, and a machine that is installed and upgraded by such a name. `make release
// REGISTRY=registry.example.com/site` has made it; the running programs are of a build without
// REGISTRY, so its images are those of another release for the node.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>

#include "tests/vm/upgrades.h"

namespace talos::vm {
namespace {

using harness::Cluster;
using harness::contains;
using harness::eventually;
using harness::run;
namespace fs = std::filesystem;

constexpr const char* kPublished = "registry.example.com/site/installer:";

class ReleaseTest : public harness::RegistryHost {
 protected:
  std::string release = getenv("RELEASE") != nullptr ? getenv("RELEASE") : "";

  ~ReleaseTest() noexcept override {}
  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(RegistryHost::SetUp());
    ASSERT_TRUE(fs::exists(release + "/index.json"))
        << "make release REGISTRY=registry.example.com/site first";
  }

  // The line of an image that the release's own talosctl prints.
  std::string printedInstaller() {
    std::istringstream lines(Images::must({release + "/talosctl-linux-amd64", "images"}));
    for (std::string line; std::getline(lines, line);) {
      if (contains(line, "/installer:")) return line;
    }
    return "";
  }
  std::string digestOf(const std::string& tag) {
    auto digest = Images::must(
        {"jq", "-r", "--arg", "tag", tag, ".installer.tags[$tag]", release + "/index.json"});
    return digest.substr(0, digest.find('\n'));
  }
};

}  // namespace

// Catches: a talosctl that prints an installer which is not in the registry of its release; an
// image of a release that a node does not install or upgrade to by its name, or whose signature by
// the release's key it does not find or take.
TEST_F(ReleaseTest, AMachineIsInstalledAndUpgradedByName) {
  harness::Registry registry(folder, "127.0.0.1:6000");
  auto pushed = run({"env", "INSECURE=1", std::string(getenv("ROOTFS")) + "/release-push.sh",
                     release, "127.0.0.1:6000/site"},
                    300);
  ASSERT_EQ(pushed.status, 0) << pushed.err;

  // "for image in $(talosctl images)": pulled by its name, through a mirror.
  auto image = printedInstaller();
  ASSERT_TRUE(image.starts_with(kPublished)) << image;
  auto tag = image.substr(std::string(kPublished).size());
  auto mirrors = folder + "/registries.conf";
  std::ofstream(mirrors) << "[[registry]]\nlocation = \"registry.example.com\"\n"
                            "[[registry.mirror]]\nlocation = \"127.0.0.1:6000\"\ninsecure = true\n";
  auto pulled = run({"skopeo", "--registries-conf", mirrors, "copy", "--quiet", "docker://" + image,
                     "dir:" + folder + "/pulled"},
                    300);
  ASSERT_EQ(pulled.status, 0) << pulled.err;
  fs::remove_all(folder + "/pulled");

  Cluster cluster("released",
                  upgradeFlags({"--with-bootloader", "--wait=false", "--install-image", image}),
                  kComesUp);
  Machine node{cluster, "released-master-1"};
  EXPECT_TRUE(eventually([&] { return contains(node.status(), "stage: done"); }, 2 * kComesUp, 1))
      << node.status() << cluster.console(node.name);
  EXPECT_EQ(node.slot(), "B");
  EXPECT_TRUE(contains(node.status(), "image: " + image + "\n")) << node.status();
  EXPECT_TRUE(contains(node.status(), digestOf(tag))) << node.status();

  auto key = Images::must({"cat", release + "/release.pub"});
  key = std::regex_replace(key, std::regex("\n"), "\\n");
  cluster.ok({"patch", "machineconfig", "--mode=no-reboot", "-p",
              R"([{"op": "add", "path": "/machine/install/imageKey", "value": ")" + key + "\"}]"},
             kComesUp);
  auto upgraded = node.upgradeTo(image + "-cloud", {"--preserve"});
  EXPECT_EQ(upgraded.status, 0) << upgraded.err << cluster.console(node.name);
  EXPECT_EQ(node.slot(), "A");
  EXPECT_TRUE(contains(node.status(), "image: " + image + "-cloud\n")) << node.status();
  EXPECT_TRUE(contains(node.status(), digestOf(tag + "-cloud"))) << node.status();
}

}  // namespace talos::vm
