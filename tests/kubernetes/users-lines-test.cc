// The command lines of the users' documents, typed one after another on a fresh cluster: what
// tests/client/users-lines.txt says of each has to come true.
#include <gmock/gmock.h>
#include <kj/encoding.h>
#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <regex>
#include <set>

#include "tests/client/users-lines.h"
#include "tests/kubernetes/kube-cluster.h"

namespace talos {
namespace {

using harness::contains;
using harness::eventually;
using harness::Result;
using testing::HasSubstr;

constexpr const char *kMaster = "10.5.0.2", *kWorker = "10.5.0.3";

void replaceAll(std::string& text, const std::string& from, const std::string& to) {
  for (auto at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
}

// Tables are printed as wide as what is in them.
std::string squeezed(const std::string& text) {
  return std::regex_replace(text, std::regex(" +"), " ");
}

// A command that changes nothing may be repeated until the cluster has come so far.
bool asks(const std::string& command) {
  static const std::set<std::string> all = {"get", "service", "containers", "c",
                                            "ls",  "logs",    "read"};
  return all.contains(command);
}

class UsersLinesOnCluster : public KubeHost {
 protected:
  std::unique_ptr<KubeCluster> cluster;
  std::string desk;  // the reader's folder, and home

  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(KubeHost::SetUp());
    cluster =
        std::make_unique<KubeCluster>("users", 1, 1, std::vector{std::string("--bootstrap=false")});
    desk = cluster->talos.folder() + "/desk";
    ASSERT_EQ(mkdir(desk.c_str(), 0700), 0);
    writeSecrets();
    write("editor", "#!/bin/sh\necho '# edited' >>\"$1\"\n");
    ASSERT_EQ(chmod((desk + "/editor").c_str(), 0700), 0);
  }
  void TearDown() override {
    cluster = nullptr;
    KubeHost::TearDown();
  }

  // Types the line, waits until what it has begun is over, and looks at what it has printed.
  void type(const UsersLine& line) {
    SCOPED_TRACE(line.origin + ": " + line.text);
    auto words = clientWords(filled(line.text));
    ASSERT_FALSE(words.empty());
    if (contains(line.text, "config.yaml") && !contains(line.text, "read ")) {
      write("config.yaml", configOf(nodeOf(words)));
    }
    std::map<std::string, std::string> boots;
    for (auto& node : cluster->nodes) boots[node.address] = cluster->bootId(node);
    auto last = typed(words);
    if (!isAsSaid(line, last) && std::any_of(words.begin(), words.end(), asks)) {
      eventually([&] { return isAsSaid(line, last = typed(words)); }, 60, 1);
    }
    EXPECT_EQ(last.status, statusSaid(line)) << last.out << last.err;
    auto printed = squeezed(last.out + last.err);
    for (auto& piece : saidOf(line)) EXPECT_THAT(printed, HasSubstr(piece));
    if (contains(last.out + last.err, "reboot")) awaitReboots(last, boots);
  }

 private:
  std::string serviceAccountKey, aggregatorCert, aggregatorKey;
  std::set<std::string> patched;  // paths that the config has since

  void write(const std::string& name, const std::string& content) {
    std::ofstream(desk + "/" + name, std::ios::binary) << content;
  }
  std::string configOf(const std::string& address) {
    return cluster->talos.ok({"read", "-n", address, "/system/state/config.yaml"});
  }

  // As the documents tell to take them from a control plane's config.
  void writeSecrets() {
    auto config = configOf(kMaster);
    auto valueOf = [&](const std::string& key, const std::string& name) {
      std::smatch match;
      EXPECT_TRUE(std::regex_search(
          config, match, std::regex("\n +" + key + ":\n(?: +crt: \\S+\n)? +" + name + ": (\\S+)")))
          << key << "." << name;
      return match[1].str();
    };
    auto plain = [](const std::string& base64) {
      auto bytes = kj::decodeBase64(kj::ArrayPtr<const char>(base64.data(), base64.size()));
      return std::string(bytes.asChars().begin(), bytes.size());
    };
    // The first ca is the machine's.
    write("ca.crt", plain(valueOf("ca", "crt")));
    write("ca.key", plain(valueOf("ca", "key")));
    serviceAccountKey = valueOf("serviceAccount", "key");
    aggregatorCert = valueOf("aggregatorCA", "crt");
    aggregatorKey = valueOf("aggregatorCA", "key");
  }

  // With this cluster in the place of the documents'. Of their releases there is one, under two
  // names where they go from one to another: the mirror serves any.
  std::string filled(std::string text) {
    const std::pair<const char*, std::string> places[] = {
        {"<CONTROL_PLANE_IP1>,<CONTROL_PLANE_IP2>,...", kMaster},
        {"<IP1>,<IP2>,...", std::string(kMaster) + "," + kWorker},
        {"<node>", kWorker},
        {"<node ip>", kWorker},
        {"IP.of.node.to.remove", kWorker},
        {"-n IP ", std::string("-n ") + kMaster + " "},
        {"<containerID>",
         "kube-system/kube-controller-manager-users-master-1:kube-controller-manager"},
        {"talos-default-master-1", "users-master-1"},
        {"[{...}]",
         R"([{"op": "add", "path": "/machine/nodeLabels", "value": {"users": "line"}}])"},
        {"k8s.gcr.io/kube-apiserver:v1.20.5", "mirror.example/kube-apiserver:v1.34.4"},
        {"ghcr.io/talos-systems/kubelet:v1.20.5", "mirror.example/siderolabs/kubelet:v1.34.4"},
        {"k8s.gcr.io", "registry.k8s.io"},
        {"ghcr.io/talos-systems/kubelet", "ghcr.io/siderolabs/kubelet"},
        {"LS0tLS1CRUdJTiBSU0EgUFJJVkFURS...", serviceAccountKey},
        {"S0tLS1CRUdJTiBDRVJUSUZJQ...", aggregatorCert},
        {"LS0tLS1CRUdJTiBFQy...", aggregatorKey}};
    for (auto& [from, to] : places) replaceAll(text, from, to);
    text = std::regex_replace(text, std::regex("<[^>]*>"), kMaster);
    text = std::regex_replace(text, std::regex(":v1\\.20\\.[0-9]+"), ":v1.34.4");
    // The documents: the patch has to be adjusted where the config has no such key yet.
    std::smatch path;
    bool patch =
        std::regex_search(text, path, std::regex("\"op\": \"replace\", \"path\": \"([^\"]+)"));
    if (patch && patched.insert(path[1]).second) replaceAll(text, "\"replace\"", "\"add\"");
    return text;
  }

  static std::string nodeOf(const std::vector<std::string>& words) {
    auto flag = std::find(words.begin(), words.end(), "-n");
    return flag == words.end() || flag + 1 == words.end() ? kMaster : *(flag + 1);
  }

  Result typed(const std::vector<std::string>& words) {
    // An edit that tells when it is to take effect changes something, any other one does not.
    bool changes = std::any_of(words.begin(), words.end(), [](auto& word) {
      return word == "--immediate" || word == "--on-reboot" || contains(word, ",");
    });
    std::vector<std::string> all = {"sh", "-c", "cd \"$0\" && exec \"$@\"", desk};
    auto command = cluster->talos.command(words);
    all.insert(all.end(), command.begin(), command.end());
    return harness::run(
        all, 300,
        {"HOME=" + desk, "KUBECONFIG=", "EDITOR=" + (changes ? desk + "/editor" : "true")});
  }

  static int statusSaid(const UsersLine& line) {
    return line.run == "fails" || line.verdict == "refused" ? 1 : 0;
  }
  std::vector<std::string> saidOf(const UsersLine& line) {
    if (line.verdict == "refused") return {line.why};
    std::vector<std::string> pieces;
    for (auto& piece : line.printed) pieces.push_back(squeezed(filled(piece)));
    return pieces;
  }
  bool isAsSaid(const UsersLine& line, const Result& result) {
    auto printed = squeezed(result.out + result.err);
    auto pieces = saidOf(line);
    return result.status == statusSaid(line) &&
           std::all_of(pieces.begin(), pieces.end(),
                       [&](auto& piece) { return contains(printed, piece); });
  }

  // The nodes of which it was said.
  void awaitReboots(const Result& said, const std::map<std::string, std::string>& boots) {
    for (auto& node : cluster->nodes) {
      std::regex reboots(node.address + ": [^\n]*reboot(s|ed)\\b");
      if (!std::regex_search(said.out + said.err, reboots)) continue;
      EXPECT_TRUE(eventually(
          [&] {
            auto now = cluster->bootId(node);
            return now != "" && now != boots.at(node.address) &&
                   cluster->talos.booted(node.address);
          },
          kClusterUp, 0.5))
          << node.address << " does not come back";
    }
    // Pods of the boot before may stay, as failed ones.
    cluster->talos.ok({"-n", kMaster, "health", "--wait-timeout=5m"}, kClusterUp);
  }
};

// Catches: a line of the documents that no longer does on a cluster what is written there.
TEST_F(UsersLinesOnCluster, DoWhatIsWritten) {
  auto all = readUsersLines(USERS_LINES);
  unsigned typed = 0;
  auto typeThose = [&](const std::set<std::string>& runs) {
    for (auto& line : all) {
      if (HasFatalFailure()) return;
      bool refused = runs.contains("here") && line.verdict == "refused";
      if (!refused && !runs.contains(line.run)) continue;
      type(line);
      ++typed;
    }
  };
  typeThose({"first"});
  if (HasFailure()) return;
  cluster->awaitSystem();
  typeThose({"here"});
  typeThose({"end", "fails"});
  EXPECT_GE(typed, 100u);
}

}  // namespace
}  // namespace talos
