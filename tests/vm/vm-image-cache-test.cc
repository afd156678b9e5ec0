// A machine without a network to any registry, and a disc with a cache of images.
#include <gtest/gtest.h>
#include <kj/encoding.h>

#include <filesystem>
#include <fstream>

#include "common/base/sha256.h"
#include "tests/harness/cluster.h"

namespace talos::vm {
namespace {

namespace fs = std::filesystem;
using harness::contains;
using harness::eventually;

constexpr double kUp = 480;

std::string digestOf(const std::string& text) {
  Sha256 sum;
  sum.add(kj::arrayPtr(text.data(), text.size()).asBytes());
  return sum.hex().cStr();
}

void write(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path) << text;
}

// Makes a disc whose cache has the image registry.example/small:1, which has no files.
std::string disc(const fs::path& folder) {
  auto cache = folder / "tree/imagecache";
  std::string layer(1024, '\0');  // the end of a tar
  std::string config =
      R"({"architecture":"amd64","os":"linux","rootfs":{"type":"layers","diff_ids":["sha256:)" +
      digestOf(layer) + R"("]}})";
  std::string manifest =
      R"({"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json",)"
      R"("config":{"mediaType":"application/vnd.oci.image.config.v1+json","digest":"sha256:)" +
      digestOf(config) + R"(","size":)" + std::to_string(config.size()) +
      R"(},"layers":[{"mediaType":"application/vnd.oci.image.layer.v1.tar","digest":"sha256:)" +
      digestOf(layer) + R"(","size":1024}]})";
  write(cache / "blob" / ("sha256-" + digestOf(layer)), layer);
  write(cache / "blob" / ("sha256-" + digestOf(config)), config);
  auto repository = cache / "manifests/registry.example/small";
  write(repository / "reference/1", manifest);
  write(repository / "digest" / ("sha256-" + digestOf(manifest)), manifest);
  auto iso = folder / "cache.iso";
  auto made = harness::run({"xorriso", "-as", "mkisofs", "-quiet", "-V", "TALOS_CACHE", "-r", "-J",
                            "-o", iso.string(), (folder / "tree").string()},
                           60);
  EXPECT_EQ(made.status, 0) << made.err;
  return iso.string();
}

}  // namespace

// Catches: a disc that is not found, not mounted, or whose files registryd cannot read; an image
// that containerd does not take from it; a cache that stays in use when the config turns it off.
TEST(ImageCache, ComesFromADisc) {
  auto folder = fs::temp_directory_path() / ("image-cache-" + std::to_string(getpid()));
  auto iso = disc(folder);
  harness::Cluster cluster(
      "imagecache",
      {"--masters", "1", "--workers", "0", "--memory", "768", "--no-uplink", "--iso-path", iso,
       "--config-patch", "machine: {features: {imageCache: {localEnabled: true}}}"},
      kUp);
  auto shows = [&](const std::string& status) {
    return eventually(
        [&] {
          auto record = cluster.talosctl({"get", "imagecacheconfig", "-o", "yaml"}).out;
          return contains(record, "status: " + status);
        },
        kUp, 1);
  };
  EXPECT_TRUE(shows("ready")) << cluster.console("imagecache-master-1");
  EXPECT_TRUE(contains(cluster.ok({"get", "imagecacheconfig", "-o", "yaml"}),
                       "/system/imagecache/iso/imagecache"));
  EXPECT_TRUE(contains(cluster.ok({"read", "/proc/mounts"}), " /system/imagecache/iso iso9660 ro"));
  auto pulled = cluster.talosctl({"image", "pull", "registry.example/small:1"}, 120);
  EXPECT_EQ(pulled.status, 0) << pulled.err;
  cluster.ok({"patch", "mc", "--mode", "no-reboot", "-p",
              "machine: {features: {imageCache: {localEnabled: false}}}"},
             120);
  EXPECT_TRUE(shows("disabled"));
  EXPECT_TRUE(eventually(
      [&] { return !contains(cluster.ok({"read", "/proc/mounts"}), "imagecache"); }, kUp, 1));
  fs::remove_all(folder);
}

}  // namespace talos::vm
