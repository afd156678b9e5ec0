#include "tests/bad-images/system-images.h"

#include <kj/debug.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string_view>

#include "tests/harness/process.h"

namespace talos {
namespace {

namespace fs = std::filesystem;

constexpr const char* kMark = "the fault of this program: ";
constexpr std::string_view kPatch = "patch ";
constexpr size_t kMostFault = 100;
constexpr const char* kOriginals = "usr/lib/";

std::string setting(const char* name) {
  const char* value = getenv(name);
  KJ_REQUIRE(value != nullptr, "set by ctest", name);
  return value;
}

std::string must(const std::vector<std::string>& words) {
  auto result = harness::run(words, 300);
  KJ_REQUIRE(result.status == 0, words[0].c_str(), result.out.c_str(), result.err.c_str());
  return result.out;
}

std::string readAll(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  KJ_REQUIRE(in.good(), path.c_str());
  return {std::istreambuf_iterator<char>(in), {}};
}

void writeAll(const std::string& path, const std::string& content) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out << content;
  out.flush();
  KJ_REQUIRE(out.good(), path.c_str());
}

std::string programWith(const std::string& fault) {
  KJ_REQUIRE(fault.size() < kMostFault);
  auto program = readAll(setting("BAD_PROGRAM"));
  auto at = program.find(kMark);
  KJ_REQUIRE(at != std::string::npos, "bad-program has no place for its fault");
  KJ_REQUIRE(program.find(kMark, at + 1) == std::string::npos, "bad-program has two such places");
  auto text = kMark + fault;
  text.push_back('\0');
  return program.replace(at, text.size(), text);
}

std::string patched(const std::string& path, const std::string& patch) {
  auto blank = patch.find(' ');
  auto old = patch.substr(0, blank), fresh = patch.substr(blank + 1);
  KJ_REQUIRE(old.size() == fresh.size(), patch.c_str());
  auto program = readAll(path);
  unsigned count = 0;
  for (size_t at = 0; (at = program.find(old, at)) != std::string::npos; at += old.size()) {
    program.replace(at, old.size(), fresh);
    ++count;
  }
  KJ_REQUIRE(count > 0, "the program has no such text", path.c_str(), old.c_str());
  return program;
}

std::string nameOf(const std::string& program) {
  return program.substr(program.rfind('/') + 1);
}

}  // namespace

std::string SystemImages::original(const std::string& program) {
  // A program of the system knows by its name which one it is.
  return std::string("/") + kOriginals + "original/" + nameOf(program);
}

std::string SystemImages::make(const std::string& version, const std::vector<Fault>& faults) {
  auto tree = setting("IMAGE") + "/parts/tree", image = folder + "/image";
  fs::remove_all(image);
  fs::create_directories(image);
  std::vector<std::string> command = {"mksquashfs",
                                      tree,
                                      image + "/rootfs.sqsh",
                                      "-noappend",
                                      "-quiet",
                                      "-no-progress",
                                      "-comp",
                                      "zstd",
                                      "-Xcompression-level",
                                      "1",
                                      "-all-root",
                                      "-no-xattrs",
                                      "-p",
                                      "/" + std::string(kOriginals) + "original d 0755 0 0"};
  std::vector<std::string> replaced;
  for (auto& fault : faults) {
    auto bad = folder + "/" + nameOf(fault.program);
    writeAll(bad, fault.kind.starts_with(kPatch)
                      ? patched(tree + "/" + fault.program, fault.kind.substr(kPatch.size()))
                      : programWith(fault.kind));
    command.insert(command.end(), {"-p", "/" + fault.program + " f 0755 0 0 cat " + bad});
    if (harness::contains(fault.kind, original(fault.program))) {
      command.insert(command.end(), {"-p", original(fault.program) + " f 0755 0 0 cat " + tree +
                                               "/" + fault.program});
    }
    replaced.push_back(fault.program);
  }
  // By name: a program of the system is a link to the file of all of them.
  if (!replaced.empty()) {
    command.insert(command.end(), {"-wildcards", "-e"});
    command.insert(command.end(), replaced.begin(), replaced.end());
  }
  must(command);
  return pack(version);
}

// Packs the image. Besides the root image, installer.sh reads the output of `make image`.
std::string SystemImages::pack(const std::string& version) {
  auto image = folder + "/image", archive = folder + "/installer.tar";
  fs::remove(archive + ".sig");
  if (!fs::exists(image + "/parts")) {
    fs::create_directory_symlink(setting("IMAGE") + "/parts", image + "/parts");
  }
  must({"env", "VERSION=" + version, setting("ROOTFS") + "/installer.sh", image, archive});
  return archive;
}

std::string SystemImages::withoutAKey(const std::string& version) {
  make(version, {});
  auto from = setting("IMAGE") + "/parts/tree/usr/install",
       to = folder + "/image/parts/tree/usr/install";
  fs::remove(folder + "/image/parts");  // a link
  fs::create_directories(to);
  fs::copy(from, to);
  auto keys = readAll(to + "/config-keys");
  constexpr std::string_view kKey = "\nmachine.token\n";
  auto at = keys.find(kKey);
  KJ_REQUIRE(at != std::string::npos, "the list of keys lacks machine.token already");
  writeAll(to + "/config-keys", keys.erase(at, kKey.size() - 1));
  return pack(version);
}

std::string SystemImages::withoutItsEnd(const std::string& version) {
  make(version, {});
  auto root = folder + "/image/rootfs.sqsh";
  fs::resize_file(root, fs::file_size(root) / 2);
  return pack(version);
}

std::string SystemImages::damaged(const std::string& version) {
  auto archive = make(version, {});
  auto content = readAll(archive);
  content[content.size() / 2] ^= 1;
  writeAll(archive, content);
  return archive;
}

std::string SystemImages::cut(const std::string& version) {
  auto archive = make(version, {});
  fs::resize_file(archive, fs::file_size(archive) / 2);
  return archive;
}

std::string SystemImages::makeKey(const std::string& name) const {
  auto key = folder + "/" + name + ".key";
  must({"openssl", "genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out",
        key});
  return must({"openssl", "pkey", "-in", key, "-pubout"});
}

void SystemImages::sign(const std::string& archive, const std::string& keyName) const {
  must({"openssl", "dgst", "-sha256", "-sign", folder + "/" + keyName + ".key", "-out",
        archive + ".sig", archive});
}

}  // namespace talos
