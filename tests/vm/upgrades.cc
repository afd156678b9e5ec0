#include "tests/vm/upgrades.h"

#include <kj/debug.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <regex>

namespace talos::vm {
namespace {

using harness::Cluster;
using harness::contains;
using harness::run;
namespace fs = std::filesystem;

constexpr const char* kRegistry = "docker://127.0.0.1:6000/talos/installer:";

std::string setting(const char* name) {
  const char* value = getenv(name);
  KJ_REQUIRE(value != nullptr, "set by ctest", name);
  return value;
}

// The limit of this process: it may not be allowed to set a higher one.
std::string limit(const std::string& name, __rlimit_resource which) {
  rlimit most = {};
  KJ_SYSCALL(getrlimit(which, &most));
  return name + "=" + std::to_string(most.rlim_max);
}

}  // namespace

Images::Images(std::string f)
    : folder(std::move(f)),
      registry(folder, "127.0.0.1:6000"),
      server(getpid(), "127.0.0.1", 6080) {}

std::string Images::must(const std::vector<std::string>& words) {
  auto result = run(words, 300);
  KJ_REQUIRE(result.status == 0, words[0].c_str(), result.out.c_str(), result.err.c_str());
  return result.out;
}

void Images::make(const std::string& version, const std::vector<std::string>& changes) {
  auto image = setting("IMAGE");
  if (!changes.empty()) {
    // An unchanged image is not made again.
    image = folder + "/" + version;
    fs::create_directories(image);
    must({"cp", "-a", setting("IMAGE") + "/parts", image + "/parts"});
    std::vector<std::string> words = {"env"};
    words.insert(words.end(), changes.begin(), changes.end());
    words.insert(words.end(), {setting("ROOTFS") + "/image.sh", "/", setting("OUT"), image});
    must(words);
  }
  must({"env", "VERSION=" + version, setting("ROOTFS") + "/installer.sh", image, tarOf(version)});
  if (!changes.empty()) fs::remove_all(image);
}

std::string Images::inRegistry(const std::string& version) {
  push("oci-archive:" + tarOf(version), version);
  return "ghcr.io/talos/installer:" + version;
}

std::string Images::onServer(const std::string& version) {
  std::ifstream in(tarOf(version), std::ios::binary);
  std::string body((std::istreambuf_iterator<char>(in)), {});
  server.answer("", harness::Manner::kGood, body);
  return "http://10.5.0.1:6080/installer.tar#sha256=" +
         must({"sha256sum", tarOf(version)}).substr(0, 64);
}

std::string Images::derived(const std::string& from, const std::string& version) {
  auto context = folder + "/context", kernel = context + "/kernel";
  fs::create_directories(kernel + "/boot");
  fs::create_directories(kernel + "/lib");
  must({"sh", "-c",
        "cp '" + setting("UNPACKED_KERNEL") + "'/boot/vmlinuz-* '" + kernel + "/boot/vmlinuz'"});
  must({"cp", "-a", setting("UNPACKED_KERNEL") + "/usr/lib/modules", kernel + "/lib/modules"});
  std::ofstream(context + "/site.conf") << "a site of its own\n";
  std::ofstream(context + "/Dockerfile")
      << "FROM scratch AS kernel\nCOPY kernel /\n"
         "FROM scratch AS customization\n"
         "COPY --from=kernel /lib/modules /lib/modules\nCOPY site.conf /etc/site.conf\n"
         "FROM ghcr.io/talos-systems/installer:latest\n"
         "COPY --from=kernel /boot/vmlinuz /usr/install/vmlinuz\n";
  auto base = must(buildah({"pull", "-q", "docker-archive:" + tarOf(from)}));
  while (!base.empty() && base.back() == '\n') base.pop_back();
  must(buildah({"tag", base, "ghcr.io/talos-systems/installer:latest"}));
  must(
      buildah({"build", "-q", "--squash", "--isolation", "chroot", "--skip-unused-stages=false",
               "--ulimit", limit("nproc", RLIMIT_NPROC), "--ulimit", limit("nofile", RLIMIT_NOFILE),
               "--build-arg", "RM=/lib/modules /etc/ssl/certs/ca-certificates", "--build-arg",
               "VERSION=" + version, "-t", "site/installer:" + version, context}));
  must(buildah({"push", "-q", "-D", "--tls-verify=false", "site/installer:" + version,
                kRegistry + version}));
  must(buildah({"rmi", "--all", "--force"}));
  fs::remove_all(context);
  return "ghcr.io/talos/installer:" + version;
}

std::string Images::truncated(const std::string& from, const std::string& version) {
  auto layout = folder + "/layout";
  must({"skopeo", "copy", "oci-archive:" + tarOf(from), "oci:" + layout + ":x"});
  auto cut = folder + "/cut";
  fs::copy_file(setting("IMAGE") + "/rootfs.sqsh", cut);
  fs::resize_file(cut, 1 << 20);
  must({"umoci", "insert", "--image", layout + ":x", cut, "/usr/install/rootfs.sqsh"});
  push("oci:" + layout + ":x", version);
  return "ghcr.io/talos/installer:" + version;
}

std::string Images::digestOf(const std::string& version) {
  return must({"skopeo", "inspect", "--tls-verify=false", "--format", "{{.Digest}}",
               kRegistry + version})
      .substr(0, 71);
}

void Images::sign(const std::string& version, const std::string& key) {
  auto layout = folder + "/signature", payload = folder + "/payload";
  auto blob = [&](const std::string& text, const std::string& type, const std::string& more) {
    std::ofstream(payload, std::ios::binary) << text;
    auto hex = must({"sha256sum", payload}).substr(0, 64);
    fs::create_directories(layout + "/blobs/sha256");
    fs::copy_file(payload, layout + "/blobs/sha256/" + hex, fs::copy_options::overwrite_existing);
    return R"({"mediaType":")" + type + R"(","digest":"sha256:)" + hex + R"(","size":)" +
           std::to_string(text.size()) + more + "}";
  };
  const std::string manifestType = "application/vnd.oci.image.manifest.v1+json",
                    configType = "application/vnd.oci.image.config.v1+json",
                    payloadType = "application/vnd.dev.cosign.simplesigning.v1+json";
  auto digest = digestOf(version);
  auto text = R"({"critical":{"identity":{"docker-reference":"ghcr.io/talos/installer"},)"
              R"("image":{"docker-manifest-digest":")" +
              digest + R"("},"type":"cosign container image signature"},"optional":null})";
  std::ofstream(payload, std::ios::binary) << text;
  auto signature =
      must({"sh", "-c", "openssl dgst -sha256 -sign '" + key + "' '" + payload + "' | base64 -w0"});
  auto layer =
      blob(text, payloadType,
           R"(,"annotations":{"dev.cosignproject.cosign/signature":")" + signature + "\"}");
  auto hex = must({"sha256sum", payload}).substr(0, 64);
  auto config = blob(
      R"({"architecture":"","os":"","config":{},"rootfs":{"type":"layers","diff_ids":["sha256:)" +
          hex + R"("]}})",
      configType, "");
  auto manifest = blob(R"({"schemaVersion":2,"mediaType":")" + manifestType + R"(","config":)" +
                           config + R"(,"layers":[)" + layer + "]}",
                       manifestType, R"(,"annotations":{"org.opencontainers.image.ref.name":"x"})");
  std::ofstream(layout + "/index.json")
      << R"({"schemaVersion":2,"manifests":[)" << manifest << "]}";
  std::ofstream(layout + "/oci-layout") << R"({"imageLayoutVersion":"1.0.0"})";
  push("oci:" + layout + ":x", "sha256-" + digest.substr(7) + ".sig");
}

std::vector<std::string> Images::buildah(const std::vector<std::string>& more) const {
  std::vector<std::string> words = {
      "buildah",   "--storage-driver",    "vfs", "--root", folder + "/images",
      "--runroot", folder + "/images.run"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

void Images::push(const std::string& what, const std::string& version) {
  must({"skopeo", "copy", "--preserve-digests", "--dest-tls-verify=false", what,
        kRegistry + version});
}

std::string Upgrade::ending(const std::string& program) {
  auto tree = folder + "/tree";
  fs::create_directories(fs::path(tree + "/" + program).parent_path());
  fs::copy_file(setting("OUT") + "/confine", tree + "/" + program);
  return tree;
}

std::string Upgrade::listOf(const std::string& path) {
  auto list = folder + "/list";
  std::ofstream(list) << path << "\n";
  return list;
}

std::vector<std::string> upgradeFlags(const std::vector<std::string>& more) {
  std::vector<std::string> words = {"--masters",
                                    "1",
                                    "--workers",
                                    "0",
                                    "--memory",
                                    "1024",
                                    "--disk",
                                    "4096",
                                    "--cidr",
                                    "10.5.0.0/24",
                                    "--registry-mirror",
                                    "*=http://10.5.0.1:6000"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

harness::Result Machine::upgradeTo(const std::string& image, std::vector<std::string> more) {
  std::vector<std::string> words = {"upgrade", "--image", image};
  words.insert(words.end(), more.begin(), more.end());
  auto begin = std::chrono::steady_clock::now();
  auto result = cluster.talosctl(words, 2 * kComesUp);
  std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  std::cerr << "upgrade to " << image << ": " << took.count() << " s\n" << result.err;
  return result;
}

std::string Machine::status() {
  return cluster.talosctl({"get", "upgradestatus", "-o", "yaml"}, 30).out;
}

std::string Machine::record() {
  auto text = status();
  return text.substr(std::min(text.size(), text.find("\nspec:")));
}

std::string Machine::slot() {
  std::smatch match;
  auto line = cluster.talosctl({"read", "/proc/cmdline"}, 30).out;
  return std::regex_search(line, match, std::regex("talos.slot=([AB])")) ? match[1].str() : "";
}

bool Machine::tells(const std::string& text) {
  return contains(cluster.talosctl({"events", "--tail", "-1", "--once"}, 30).out, text);
}

void Machine::expectBackOn(const std::string& slotName, const harness::Result& result,
                           const std::string& reason) {
  EXPECT_NE(result.status, 0) << result.out;
  EXPECT_TRUE(contains(result.err, reason)) << result.err;
  EXPECT_EQ(slot(), slotName);
  auto now = status();
  EXPECT_TRUE(contains(now, "stage: failed")) << now;
  EXPECT_TRUE(contains(now, reason)) << now;
  EXPECT_TRUE(tells(reason)) << "no event says so";
}

}  // namespace talos::vm
