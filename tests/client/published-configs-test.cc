// Machine configs as people publish them for releases from v0.7 to the newest, each with all that
// `talosctl validate` prints about it: configs/*.yaml. UPDATE_DOCS=1 rewrites that output.
//
// Words between @ stand for certificates, keys and secrets, which are made for each run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <kj/encoding.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>

#include "common/base/file.h"
#include "common/config/config-generate.h"
#include "talosctl/cli/run-command.h"
#include "talosctl/cli/test-console.h"
#include "talosctl/commands/all-commands.h"

namespace talos::talosctl {
namespace {

using ::testing::AnyOf;
using ::testing::StartsWith;

constexpr const char* kMark = "# talosctl validate --mode ";
constexpr size_t kLeast = 30;  // of these configs

std::map<std::string, std::string> placeholders() {
  auto secrets = config::makeSecrets();
  std::map<std::string, std::string> words;
  auto base64 = [](kj::ArrayPtr<const kj::byte> bytes) {
    return std::string(kj::encodeBase64(bytes).cStr());
  };
  auto add = [&](const std::string& name, const pki::CertificateAndKey& pair) {
    words["@" + name + "_CRT@"] = base64(pair.certificate.asBytes());
    words["@" + name + "_KEY@"] = base64(pair.key.bytes());
  };
  add("OS", secrets.machineAuthority);
  add("K8S", secrets.kubernetesAuthority);
  add("AGG", secrets.aggregatorAuthority);
  add("ETCD", secrets.etcdAuthority);
  words["@SA_KEY@"] = base64(secrets.serviceAccountKey.bytes());
  words["@SECRET@"] = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
  return words;
}

// A file of the folder: the config, and the expected output.
struct Published {
  std::filesystem::path path;
  std::string config, mode, said;
};

std::vector<Published> readAll() {
  std::vector<Published> all;
  for (auto& entry : std::filesystem::directory_iterator(SOURCE_FOLDER "/configs")) {
    std::ifstream file(entry.path());
    std::string text((std::istreambuf_iterator<char>(file)), {});
    auto mark = text.rfind(kMark), end = text.find('\n', mark);
    if (mark == std::string::npos || end == std::string::npos) {
      ADD_FAILURE() << entry.path() << " does not say its mode";
      continue;
    }
    auto mode = text.substr(mark + strlen(kMark), end - mark - strlen(kMark));
    all.push_back({entry.path(), text.substr(0, mark), mode, text.substr(end + 1)});
  }
  std::sort(all.begin(), all.end(), [](auto& a, auto& b) { return a.path < b.path; });
  return all;
}

struct PublishedConfigs : public ::testing::Test {
  ConsoleFixture test;
  kj::Own<Command> root = newRoot();
  kj::String folder;
  std::filesystem::path before = std::filesystem::current_path();
  PublishedConfigs() {
    addCommands(*root);
    char path[] = "/tmp/talosctl-published-XXXXXX";
    folder = kj::str(mkdtemp(path));
    KJ_SYSCALL(chdir(folder.cStr()));
  }
  ~PublishedConfigs() noexcept override {
    std::filesystem::current_path(before);
    removeTree(folder);
  }

  // All lines of stderr and stdout, as comments.
  std::string validate(const Published& published,
                       const std::map<std::string, std::string>& words) {
    auto name = published.path.filename().string();
    auto text = published.config;
    for (auto& [word, value] : words) {
      for (size_t at = 0; (at = text.find(word, at)) != std::string::npos; at += value.size())
        text.replace(at, word.size(), value);
    }
    writeFileAtomically(name.c_str(), kj::StringPtr(text.c_str(), text.size()), 0600);
    kj::StringPtr line[] = {"validate", "-c", name.c_str(), "-m", published.mode.c_str()};
    int status = run(test.deps, *root, line, kj::NEVER_DONE).wait(test.io.waitScope);
    auto lines = kj::str(test.console.takeErr(), test.console.takeOut());
    auto valid = std::string(lines.cStr()).find(name + " is valid for ") != std::string::npos;
    EXPECT_EQ(status, valid ? 0 : 1) << name;
    std::string said;
    std::istringstream stream(lines.cStr());
    for (std::string one; std::getline(stream, one); said += "# " + one + "\n") {
      EXPECT_THAT(one, AnyOf(StartsWith(name + ":"), StartsWith("WARNING: " + name + ":"),
                             name + " is valid for " + published.mode + " mode"));
    }
    return said;
  }
};

// Catches: a config that works with Talos and is refused, a key without effect that is not
// reported, and a problem that is not one line.
TEST_F(PublishedConfigs, AreValidOrRefusedWithWhatToChange) {
  auto words = placeholders();
  auto all = readAll();
  EXPECT_GE(all.size(), kLeast);
  for (auto& published : all) {
    auto said = validate(published, words);
    if (getenv("UPDATE_DOCS") != nullptr)
      std::ofstream(published.path) << published.config << kMark << published.mode << "\n" << said;
    EXPECT_EQ(published.said, said) << published.path;
  }
}

}  // namespace
}  // namespace talos::talosctl
