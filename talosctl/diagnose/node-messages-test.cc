// Tests the texts by which diagnose recognises reports of a node's programs, the resolver and the
// kernel.
#include "common/base/node-messages.h"

#include <ares.h>
#include <ctype.h>
#include <gtest/gtest.h>
#include <string.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <string>

#include "talosctl/diagnose/observed.h"

namespace talos::talosctl {
namespace {

std::string contentOf(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {(std::istreambuf_iterator<char>(file)), {}};
}

// Returns the sources of all programs below these folders, without their tests.
std::string sourcesOf(std::initializer_list<const char*> folders) {
  std::string all;
  for (auto folder : folders) {
    auto root = std::filesystem::path(TALOS_SOURCE_DIR) / folder;
    for (auto& entry : std::filesystem::recursive_directory_iterator(root)) {
      auto name = entry.path().filename().string();
      bool source = name.ends_with(".cc") || name.ends_with(".h");
      bool test = name.ends_with("-test.cc") || name.starts_with("test-");
      if (source && !test && name != "node-messages.h") all += contentOf(entry.path());
    }
  }
  return all;
}

bool uses(const std::string& sources, const std::string& constant) {
  auto name = "messages::" + constant;
  for (size_t at = 0; (at = sources.find(name, at)) != std::string::npos; at += name.size()) {
    if (isalnum(static_cast<unsigned char>(sources[at + name.size()])) == 0) return true;
  }
  return false;
}

// Catches: a daemon whose text has changed, so that diagnose finds nothing any more.
TEST(NodeMessages, AreMadeAndRecognisedByOneConstant) {
  auto node = sourcesOf({"machined", "kubed", "manifestd", "backupd", "networkd", "etcd-supervisor",
                         "trustd", "apid", "common"});
  auto diagnose = sourcesOf({"talosctl/diagnose"});
  auto header = contentOf(TALOS_SOURCE_DIR "/common/base/node-messages.h");
  std::regex constant("constexpr kj::StringPtr (k\\w+) =");
  int count = 0;
  for (std::sregex_iterator i(header.begin(), header.end(), constant), end; i != end; ++i) {
    auto name = (*i)[1].str();
    EXPECT_TRUE(uses(node, name)) << name << ": no program of a node has this message";
    EXPECT_TRUE(uses(diagnose, name)) << name << ": diagnose does not look for this message";
    ++count;
  }
  EXPECT_GT(count, 15);
}

// Catches: a changed text of the resolver library or the C library.
TEST(NodeMessages, OfLibrariesAreRecognised) {
  auto resolving = [](int status) {
    return failureOf(kj::str(messages::kCannotResolve, "\"example.org\": ", ares_strerror(status)));
  };
  EXPECT_EQ(resolving(ARES_ENOTFOUND), FailureKind::kUnknownName);
  EXPECT_EQ(resolving(ARES_ENODATA), FailureKind::kUnknownName);
  EXPECT_EQ(resolving(ARES_ETIMEOUT), FailureKind::kNoNameServer);
  EXPECT_EQ(resolving(ARES_ECONNREFUSED), FailureKind::kNoNameServer);
  auto connecting = [](int number) { return failureOf(kj::str("connect: ", strerror(number))); };
  EXPECT_EQ(connecting(ECONNREFUSED), FailureKind::kRefused);
  EXPECT_EQ(connecting(ENETUNREACH), FailureKind::kUnreachable);
  EXPECT_EQ(connecting(EHOSTUNREACH), FailureKind::kUnreachable);
  EXPECT_EQ(connecting(ETIMEDOUT), FailureKind::kSilent);
}

}  // namespace
}  // namespace talos::talosctl
