// Three control-plane nodes in containers that are switched off and carried to another network: all
// of them have other addresses when they are switched on. The same cluster has a quorum again, with
// all that was written; there is never a second one, and a stranger joins nothing.
//
// MOVES=50 of them, one after the other (docs/etcd.md); two without it.
#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <regex>

#include "tests/cluster/etcd-nodes.h"
#include "tests/harness/draw.h"

namespace talos {
namespace {

using harness::contains;
using harness::eventually;
using harness::Result;

constexpr double kMoved = 300;  // s; beside other tests

struct Move {
  std::vector<EtcdNode> nodes;  // with their new addresses
  std::string gateway, stranger;
  bool permuted = false;  // within the network, each other's addresses
  bool late = false;      // one node stays off until the others have a quorum
  bool attacked = false;
};

std::string shown(const Move& move) {
  std::string text;
  for (auto& node : move.nodes) text += node.address + " ";
  return text + (move.permuted ? "(permuted) " : "") + (move.late ? "(one is late) " : "") +
         (move.attacked ? "(with a stranger)" : "");
}

class MovedCluster : public testing::Test {
 protected:
  ~MovedCluster() noexcept override {}

  EtcdNodes nodes{"moved", 3, {"--bootstrap=true"}};
  std::vector<EtcdNode> now = nodes.all();

  // Runs a program in the network of the cluster.
  std::vector<std::string> inside(std::vector<std::string> command) const {
    std::vector<std::string> all = {"nsenter", "-t", std::to_string(nodes.cluster().supervisor()),
                                    "-n"};
    all.insert(all.end(), command.begin(), command.end());
    return all;
  }
  Result at(const EtcdNode& node, std::vector<std::string> arguments) const {
    std::vector<std::string> command = {"-e", node.address, "-n", node.address, "--timeout", "20s"};
    command.insert(command.end(), arguments.begin(), arguments.end());
    return harness::run(inside(nodes.cluster().command(command)), 120);
  }
  std::string get(const EtcdNode& node, const std::string& what) const {
    auto result = at(node, {"get", what, "-o", "yaml"});
    return result.out + result.err;
  }
  std::string clusterId(const EtcdNode& node) const {
    static const std::regex id("\"clusterId\": *\"?([0-9]+)");
    auto text = at(node, {"etcd", "status", "-o", "json"}).out;
    std::smatch match;
    return std::regex_search(text, match, id) ? match[1].str() : std::string();
  }

  Move draw(unsigned number) {
    harness::Draw draws(4, number);
    Move move{.nodes = now};
    move.permuted = number % 2 == 1;
    move.late = number % 2 == 1;
    move.attacked = number % 5 == 1;
    auto network = "10." + std::to_string(6 + number / 2) + ".0.";
    move.gateway = network + "1";
    move.stranger = network + "99";
    std::vector<std::string> addresses;
    for (unsigned i = 0; i < now.size(); ++i) addresses.push_back(network + std::to_string(11 + i));
    if (move.permuted) std::rotate(addresses.begin(), addresses.begin() + 1, addresses.end());
    for (unsigned i = 0; i < now.size(); ++i) move.nodes[i].address = addresses[i];
    return move;
  }

  // Switches the cluster off and gives its network and its nodes other addresses.
  void readdress(const Move& move) {
    for (auto& node : now) nodes.kill(node);
    nodes.cluster().ok({"cluster", "stop"}, 120);
    auto path = nodes.cluster().stateFolder() + "/state.yaml";
    auto text = harness::slurp(path);
    auto network = move.gateway.substr(0, move.gateway.size() - 1);
    static const std::regex cidr("(cidr: )10\\.\\S+"), gateway("(gateway: )10\\.\\S+");
    text = std::regex_replace(text, cidr, "$01" + network + "0/24");
    text = std::regex_replace(text, gateway, "$01" + move.gateway);
    for (auto& node : move.nodes) {
      std::regex address("(name: " + node.name + "\\n(?:.*\\n)*?\\s+address: )10\\.\\S+");
      text = std::regex_replace(text, address, "$01" + node.address);
    }
    std::ofstream(path) << text;
  }
  // Starts the cluster; a node that is late is switched off before it has done anything.
  void start(const Move& move) {
    harness::Background starts(nodes.cluster().command({"cluster", "start"}));
    if (move.late) {
      auto& last = move.nodes.back();
      EXPECT_TRUE(eventually([&] { return runs(last); }, 120)) << starts.err();
      nodes.kill(last);
    } else {
      EXPECT_EQ(0, starts.finish(kMoved)) << starts.err();
    }
    EXPECT_TRUE(eventually([&] { return runs(move.nodes[0]) && runs(move.nodes[1]); }, 120));
  }
  bool runs(const EtcdNode& node) const {
    auto shown = harness::run(nodes.cluster().command({"cluster", "show", "-o", "json"})).out;
    std::regex running("\"name\": *\"" + node.name + "\"[^}]*\"state\": *\"running\"");
    return std::regex_search(shown, running);
  }

  void readdressBridge(const std::string& address) {
    auto list = harness::run(inside({"ip", "-o", "link", "show", "type", "bridge"})).out;
    std::smatch match;
    ASSERT_TRUE(std::regex_search(list, match, std::regex("\\d+: ([^:@]+)"))) << list;
    harness::run(inside({"ip", "address", "add", address + "/24", "dev", match[1].str()}));
  }

  // Presents a certificate of another CA, with the names of a member.
  std::unique_ptr<harness::Background> stranger(const Move& move) {
    auto folder = nodes.cluster().folder();
    auto made =
        harness::run({"openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                      "ec_paramgen_curve:P-256", "-nodes", "-keyout", folder + "/stranger.key",
                      "-out", folder + "/stranger.crt", "-subj", "/CN=" + now[1].name, "-days", "2",
                      "-addext", "subjectAltName=DNS:" + now[1].name + ",IP:" + now[1].address});
    EXPECT_EQ(0, made.status) << made.err;
    readdressBridge(move.stranger);
    return std::make_unique<harness::Background>(
        inside({"openssl", "s_server", "-accept", move.stranger + ":2380", "-cert",
                folder + "/stranger.crt", "-key", folder + "/stranger.key", "-www"}));
  }

  bool haveVoters(const EtcdNode& node, size_t count) const {
    return votersIn(at(node, {"etcd", "members"}).out) == count;
  }
  // With all members, etcd has had its turn to be restarted without the proxy.
  bool isSettled(const EtcdNode& node) const {
    return haveVoters(node, 3) && contains(get(node, "etcdspecs"), "proxy: \"\"");
  }
  std::string state() const {
    std::string text;
    for (auto& node : now) {
      text += node.name + "\n" + at(node, {"etcd", "members"}).out + get(node, "etcdstatus") +
              get(node, "etcdspecs");
    }
    return text;
  }

  void carry(const Move& move, const std::string& key) {
    auto id = clusterId(now[0]);
    ASSERT_NE("", id);
    ASSERT_TRUE(nodes.put(now[0], key, shown(move)));
    for (auto& node : now) {  // what a node has seen, it has recorded
      ASSERT_TRUE(eventually([&] { return contains(get(node, "etcdstatus"), "voters: 3"); }, 60, 1))
          << get(node, "etcdstatus");
    }
    readdress(move);
    start(move);
    auto attacker = move.attacked ? stranger(move) : nullptr;
    now = move.nodes;
    size_t first = move.late ? 2 : 3;
    for (size_t i = 0; i < first; ++i) {
      EXPECT_TRUE(eventually([&] { return haveVoters(now[i], first); }, kMoved, 1)) << state();
    }
    for (size_t i = first; i < now.size(); ++i) nodes.start(now[i]);
    for (auto& node : now) {
      EXPECT_TRUE(eventually([&] { return isSettled(node); }, kMoved, 1)) << state();
      EXPECT_EQ(id, clusterId(node)) << "another cluster";
      EXPECT_TRUE(contains(nodes.get(node, key), shown(move))) << nodes.get(node, key);
      EXPECT_TRUE(contains(get(node, "etcdmembers"), "https://" + node.address + ":2380"));
    }
    EXPECT_FALSE(contains(get(now[0], "etcdmembers"), move.stranger)) << "the stranger has joined";
  }
};

// Catches: a cluster without a quorum for ever, a lost revision, a second cluster, members whose
// URLs stay or whose etcd keeps the proxy.
TEST_F(MovedCluster, HasAQuorumAgain) {
  ASSERT_TRUE(nodes.haveVoters(nodes[0], 3)) << nodes.members(nodes[0]);
  auto text = getenv("MOVES");
  unsigned moves = text == nullptr ? 2 : unsigned(std::stoul(text));
  for (unsigned i = 0; i < moves && !HasFailure(); ++i) {
    auto move = draw(i);
    SCOPED_TRACE("move " + std::to_string(i) + " to " + shown(move));
    auto began = std::chrono::steady_clock::now();
    carry(move, "/moves/" + std::to_string(i));
    auto seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    printf("move %u: %s: %.0f s with the configs\n", i, shown(move).c_str(), seconds);
    fflush(stdout);
  }
}

}  // namespace
}  // namespace talos
