// A virtual machine with encrypted partitions, and its disk as Debian's cryptsetup on this host
// reads it.
#pragma once

#include <gtest/gtest.h>
#include <kj/debug.h>

#include <fstream>
#include <functional>
#include <regex>

#include "tests/harness/cluster.h"

namespace talos::vm {

using harness::Cluster;
using harness::contains;
using harness::eventually;
using harness::slurp;

inline constexpr double kSlow = 600;  // seconds, in emulation beside others
inline constexpr double kCreated = 1200;
// Memory of the machine in MiB. Deriving a key takes a quarter of it: an emulated processor takes
// 10 seconds for 128 MiB.
inline constexpr const char* kMemory = "384";
inline constexpr size_t kMiB = 1u << 20, kHeaderBytes = 17 * kMiB;

struct EncryptedNode {
  Cluster& cluster;
  std::string name;

  std::string file(const std::string& extension) const {
    return cluster.stateFolder() + "/" + name + "." + extension;
  }
  std::string uuid() const {
    auto text = slurp(cluster.stateFolder() + "/state.yaml");
    std::smatch match;
    KJ_REQUIRE(std::regex_search(text, match, std::regex("uuid: \"?([-0-9a-f]{36})")));
    return match[1].str();
  }
  // Returns the header of a LUKS2 volume with this label, as a file for cryptsetup.
  std::string header(const std::string& disk, const std::string& label) const {
    std::ifstream in(file(disk), std::ios::binary);
    std::string begin(80, '\0');
    for (size_t at = 0; in.seekg(at) && in.read(begin.data(), ssize_t(begin.size())); at += kMiB) {
      if (begin.compare(0, 6, "LUKS\xba\xbe") != 0 || begin.c_str() + 24 != label) continue;
      std::string bytes(kHeaderBytes, '\0');
      in.seekg(at);
      in.read(bytes.data(), ssize_t(bytes.size()));
      auto path = cluster.folder() + "/" + label + ".header";
      std::ofstream(path, std::ios::binary) << bytes;
      return path;
    }
    return "";
  }
  std::string dump(const std::string& disk, const std::string& label) const {
    return harness::run({"/usr/sbin/cryptsetup", "luksDump", header(disk, label)}, kSlow).out;
  }
  bool opens(const std::string& disk, const std::string& label, const std::string& passphrase,
             unsigned slot) const {
    auto path = cluster.folder() + "/passphrase", luks = header(disk, label);
    std::ofstream(path, std::ios::binary) << passphrase;
    return !luks.empty() &&
           harness::run({"/usr/sbin/cryptsetup", "open", "--test-passphrase", "--key-slot",
                         std::to_string(slot), "--key-file", path, luks},
                        kSlow)
                   .status == 0;
  }
  void expectOpen(const std::string& label, const std::string& slot, double within = kSlow) const {
    std::string last;
    std::regex row(label + R"(\s+\d+\s+ready\s.*\sluks2\s+)" + slot + R"(\s)");
    EXPECT_TRUE(eventually(
        [&] {
          auto said = cluster.talosctl({"get", "volumestatus"}, 20);
          last = said.out + said.err;
          return said.status == 0 && std::regex_search(last, row);
        },
        within, 1))
        << label << " is not open by slot " << slot << ":\n"
        << last << cluster.console(name);
  }
  void replaceKeys(const std::string& mode, const std::string& partition,
                   const std::string& keys) const {
    auto patch = R"([{"op": "replace", "path": "/machine/systemDiskEncryption/)" + partition +
                 R"(/keys", "value": )" + keys + "}]";
    auto said =
        cluster.talosctl({"patch", "machineconfig", "--mode=" + mode, "-p", patch}, 3 * kSlow);
    ASSERT_EQ(said.status, 0) << said.out << said.err;
    if (mode == "no-reboot") {
      EXPECT_TRUE(contains(said.err, "verifying that the key of slot")) << said.err;
      EXPECT_TRUE(contains(said.err, "removing key slot")) << said.err;
    }
  }
  void expectKeys(const std::string& label, const std::string& keys) const {
    auto shown = cluster.talosctl({"get", "volumestatus", label, "-o", "yaml"}, kSlow);
    EXPECT_TRUE(contains(shown.out, ("encryptionKeys: " + keys + "\n").c_str()))
        << shown.out << shown.err;
  }
  // Turns the machine off, and on with the changes that `meanwhile` makes to the cluster's files.
  void powerCycle(const std::function<void()>& meanwhile) const {
    auto off = cluster.talosctl({"cluster", "stop"}, kSlow);
    ASSERT_EQ(off.status, 0) << off.out << off.err;
    meanwhile();
    auto on = cluster.talosctl({"cluster", "start", "--wait=false"}, kSlow);
    ASSERT_EQ(on.status, 0) << on.out << on.err;
  }
  void replaceUuid(const std::string& from, const std::string& to) const {
    auto path = cluster.stateFolder() + "/state.yaml";
    auto text = slurp(path);
    auto at = text.find(from);
    KJ_REQUIRE(at != std::string::npos, from.c_str());
    text.replace(at, from.size(), to);
    std::ofstream(path, std::ios::binary) << text;
  }
};

}  // namespace talos::vm
