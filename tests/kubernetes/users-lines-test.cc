// The command lines of the users' documents, typed one after another on a fresh cluster: the
// outcome of each must be that of tests/client/users-lines.txt. A line is typed as it is printed,
// except for the substitutions of kSubstitutions.
#include <gmock/gmock.h>
#include <kj/encoding.h>
#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "tests/client/users-lines.h"
#include "tests/kubernetes/kube-cluster.h"

namespace talos {
namespace {

using harness::contains;
using harness::eventually;
using harness::Result;
using testing::HasSubstr;

constexpr const char* kMaster = "10.5.0.2";

// One control plane and one worker, or the numbers of USERS_LINES_ON ("3+2").
struct Size {
  unsigned controlPlanes = 1, workers = 1;
  static std::string address(unsigned index) { return "10.5.0." + std::to_string(2 + index); }
  std::string worker() const { return address(controlPlanes); }
  // Prints the addresses of the control plane in Go's format of a list.
  std::string masters() const {
    std::string list;
    for (unsigned i = 0; i < controlPlanes; ++i) list += (i > 0 ? " \"" : "\"") + address(i) + "\"";
    return "[" + list + "]";
  }
};
const Size kSize = [] {
  Size size;
  if (auto given = getenv("USERS_LINES_ON")) {
    KJ_REQUIRE(sscanf(given, "%u+%u", &size.controlPlanes, &size.workers) == 2, given);
  }
  return size;
}();
const std::string kWorker = kSize.worker();

// The documents' addresses, placeholders and numbers of releases, and the text typed for each. The
// rest of a line stays as it is printed. The cluster has the images of one release, which its
// mirror serves for every registry: where the documents upgrade from one release to another, the
// images of the first release are named by another registry.
struct Substitution {
  std::string from, to;
};
const Substitution kSubstitutions[] = {
    {"10.5.0.3", kWorker},
    {"[\"<IP>\"]", kSize.masters()},
    {"<CONTROL_PLANE_IP1>,<CONTROL_PLANE_IP2>,...", kMaster},
    {"<IP1>,<IP2>,...", kMaster + ("," + kWorker)},
    {"<node>", kWorker},
    {"<node ip>", kWorker},
    {"IP.of.node.to.remove", kWorker},
    {"-n IP ", "-n 10.5.0.2 "},
    {"<containerID>",
     "kube-system/kube-controller-manager-talos-default-master-1:kube-controller-manager"},
    {"[{...}]", R"([{"op": "add", "path": "/machine/nodeLabels", "value": {"users": "line"}}])"},
    {"k8s.gcr.io/kube-apiserver:v1.20.5", "mirror.example/kube-apiserver:v1.34.4"},
    {"ghcr.io/talos-systems/kubelet:v1.20.5", "mirror.example/siderolabs/kubelet:v1.34.4"},
    {"ghcr.io/talos-systems/kubelet:v1.20.4", "ghcr.io/siderolabs/kubelet:v1.34.4"},
    {":v1.20.4", ":v1.34.4"},
};
// Whatever else is in angle brackets is the address of the control plane.
constexpr const char* kPlaceholder = "<[^>]*>";

// A key of each config that takes effect without a reboot and that a node shows: every line that
// sends a config sets another value.
constexpr const char *kTtlKey = "net.ipv4.ip_default_ttl",
                     *kTtlFile = "/proc/sys/net/ipv4/ip_default_ttl";

void replaceAll(std::string& text, const std::string& from, const std::string& to) {
  for (auto at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
}

// Removes the padding of tables, whose width depends on their content.
std::string squeezed(const std::string& text) {
  return std::regex_replace(text, std::regex(" +"), " ");
}

// A command that changes nothing may be repeated until the cluster has come so far.
bool asks(const std::string& command) {
  static const std::set<std::string> all = {"get", "service", "containers", "c",
                                            "ls",  "logs",    "read"};
  return all.contains(command);
}

// A change of the TTL by a line that sends a config. `nodes` is empty if the line changes none.
struct TtlChange {
  std::vector<std::string> nodes;
  unsigned ttl = 0;
  bool staged = false;  // takes effect at the next boot
};

class UsersLinesOnCluster : public KubeHost {
 protected:
  std::unique_ptr<KubeCluster> cluster;
  std::string desk;  // the reader's folder, and home

  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(KubeHost::SetUp());
    auto ttl = std::string(R"([{"op": "add", "path": "/machine/sysctls", "value": {")") + kTtlKey +
               R"(": "64"}}])";
    cluster = std::make_unique<KubeCluster>(
        "talos-default", kSize.controlPlanes, kSize.workers,
        std::vector<std::string>{"--bootstrap=false", "--config-patch", ttl});
    // The documents' context names one node.
    cluster->talos.ok({"config", "node", kMaster});
    desk = cluster->talos.folder() + "/desk";
    ASSERT_EQ(mkdir(desk.c_str(), 0700), 0);
    writeSecrets();
    write("editor", std::string("#!/bin/sh\nsed -i \"s/") + kTtlKey + ": .*/" + kTtlKey +
                        ": \\\"$TTL\\\"/\" \"$1\"\n");
    ASSERT_EQ(chmod((desk + "/editor").c_str(), 0700), 0);
  }
  void TearDown() override {
    cluster = nullptr;
    KubeHost::TearDown();
  }

  // Types the line, waits until the action that it has begun is over, and checks its output and its
  // effect.
  void type(const UsersLine& line) {
    SCOPED_TRACE(line.origin + ": " + line.text);
    auto words = clientWords(filled(line.text));
    ASSERT_FALSE(words.empty());
    auto change = changeOf(words);
    if (isAny(words, "config.yaml")) {
      ASSERT_EQ(change.nodes.size(), 1u);
      write("config.yaml", withTtl(configOf(change.nodes[0]), change.ttl));
    }
    std::map<std::string, std::string> boots, ttls;
    for (auto& node : cluster->nodes) boots[node.address] = cluster->bootId(node);
    for (auto& node : change.nodes) ttls[node] = ttlOf(node);
    auto last = typed(words, change);
    if (!isAsSaid(line, last) && std::any_of(words.begin(), words.end(), asks)) {
      eventually([&] { return isAsSaid(line, last = typed(words, change)); }, 300, 1);
    }
    EXPECT_EQ(last.status, statusSaid(line)) << last.out << last.err;
    auto printed = squeezed(last.out + last.err);
    for (auto& piece : saidOf(line)) EXPECT_THAT(printed, HasSubstr(piece));
    for (auto& node : change.nodes) staged.erase(node);
    if (contains(last.out + last.err, "reboot")) awaitReboots(last, boots);
    for (auto& node : change.nodes) {
      EXPECT_EQ(ttlOf(node), change.staged ? ttls[node] : std::to_string(change.ttl)) << node;
      if (change.staged) staged[node] = change.ttl;
    }
    checkReplaced(words);
  }

 private:
  std::string serviceAccountKey, aggregatorCert, aggregatorKey;
  unsigned lastTtl = 64;
  std::map<std::string, unsigned> staged;  // TTLs that the next boot of a node brings

  static bool isAny(const std::vector<std::string>& words, const std::string& word) {
    return std::find(words.begin(), words.end(), word) != words.end();
  }

  // Returns the change of a line: a line with a file sends it, and an edit that names the time of
  // its effect, or several nodes, changes the TTL; any other edit changes nothing.
  TtlChange changeOf(const std::vector<std::string>& words) {
    bool several = contains(nodeOf(words), ",");
    bool edits = isAny(words, "edit") &&
                 (isAny(words, "--immediate") || isAny(words, "--on-reboot") || several);
    if (!edits && !isAny(words, "config.yaml")) return {};
    TtlChange change;
    change.ttl = ++lastTtl;
    change.staged = isAny(words, "--on-reboot");
    std::istringstream nodes(nodeOf(words));
    for (std::string node; std::getline(nodes, node, ',');) change.nodes.push_back(node);
    return change;
  }
  std::string ttlOf(const std::string& node) {
    auto text = cluster->talos.ok({"-n", node, "read", kTtlFile});
    return text.substr(0, text.find('\n'));
  }
  static std::string withTtl(const std::string& config, unsigned ttl) {
    auto line = std::string(kTtlKey) + ": \"" + std::to_string(ttl) + "\"";
    auto changed = std::regex_replace(config, std::regex(std::string(kTtlKey) + ": .*"), line);
    EXPECT_NE(changed, config);
    return changed;
  }
  // Checks that the config of the node has the values of a patch with "replace".
  void checkReplaced(const std::vector<std::string>& words) {
    for (auto& word : words) {
      std::smatch match;
      std::regex replace(R"re("op": "replace", .*"value": "([^"]+)")re");
      if (!std::regex_search(word, match, replace)) continue;
      EXPECT_THAT(configOf(nodeOf(words)), HasSubstr("image: " + match[1].str() + "\n"));
    }
  }

  void write(const std::string& name, const std::string& content) {
    std::ofstream(desk + "/" + name, std::ios::binary) << content;
  }
  std::string configOf(const std::string& address) {
    return cluster->talos.ok({"read", "-n", address, "/system/state/config.yaml"});
  }

  // Writes the secrets as the documents tell to take them from a control plane's config.
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

  // Replaces the documents' cluster by this cluster.
  std::string filled(std::string text) {
    for (auto& [from, to] : kSubstitutions) replaceAll(text, from, to);
    replaceAll(text, "LS0tLS1CRUdJTiBSU0EgUFJJVkFURS...", serviceAccountKey);
    replaceAll(text, "S0tLS1CRUdJTiBDRVJUSUZJQ...", aggregatorCert);
    replaceAll(text, "LS0tLS1CRUdJTiBFQy...", aggregatorKey);
    return std::regex_replace(text, std::regex(kPlaceholder), kMaster);
  }

  static std::string nodeOf(const std::vector<std::string>& words) {
    auto flag = std::find(words.begin(), words.end(), "-n");
    return flag == words.end() || flag + 1 == words.end() ? kMaster : *(flag + 1);
  }

  Result typed(const std::vector<std::string>& words, const TtlChange& change) {
    std::vector<std::string> all = {"sh", "-c", "cd \"$0\" && exec \"$@\"", desk};
    auto command = cluster->talos.command(words);
    all.insert(all.end(), command.begin(), command.end());
    return harness::run(all, 300,
                        {"HOME=" + desk, "KUBECONFIG=", "TTL=" + std::to_string(change.ttl),
                         "EDITOR=" + (change.nodes.empty() ? "true" : desk + "/editor")});
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
      auto waiting = staged.find(node.address);
      if (waiting == staged.end()) continue;
      EXPECT_EQ(ttlOf(node.address), std::to_string(waiting->second));
      staged.erase(waiting);
    }
    // Pods of the boot before may stay, as failed ones.
    cluster->talos.ok({"-n", kMaster, "health", "--wait-timeout=5m"}, kClusterUp);
  }
};

// Catches: a line of the documents that no longer has the documented effect on a cluster; a config
// that a node acknowledges and that has no effect, or has it at the wrong time.
TEST_F(UsersLinesOnCluster, DoWhatIsWritten) {
  auto all = readUsersLines(USERS_LINES);
  unsigned typed = 0;
  auto typeThose = [&](const std::set<std::string>& runs) {
    for (auto& line : all) {
      if (HasFatalFailure()) return;
      bool refused = runs.contains("here") && line.verdict == "refused";
      if (!refused && !runs.contains(line.run)) continue;
      // A control plane that is not the only one may leave.
      bool leaves = kSize.controlPlanes > 1 && line.text == "talosctl reset";
      if (leaves) continue;
      type(line);
      ++typed;
    }
  };
  typeThose({"first"});
  if (HasFailure()) return;
  cluster->awaitSystem();
  typeThose({"here"});
  typeThose({"end", "fails"});
  printf("%u lines on %u+%u nodes\n", typed, kSize.controlPlanes, kSize.workers);
  EXPECT_GE(typed, 100u);
}

}  // namespace
}  // namespace talos
