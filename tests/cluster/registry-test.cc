// The users' chapters "Air-gapped environments" and "Configuring pull through cache", line by line:
// Debian's docker-registry on the host's loopback, clusters created with the flags as they are
// printed, and containerd of a node, which pulls images by their upstream names and knows the
// mirrors from its config.
//
// The host is a network namespace of this process: its registries, on the ports of the chapters, do
// not meet those of other tests.
#include <gtest/gtest.h>
#include <kj/debug.h>
#include <signal.h>
#include <stdlib.h>

#include <filesystem>
#include <memory>
#include <regex>
#include <set>

#include "tests/harness/cluster.h"
#include "tests/harness/registry.h"

namespace talos {
namespace {

using harness::Cluster;
using harness::contains;
using harness::eventually;
// "docker run -d -p PORT:5000 -e REGISTRY_PROXY_REMOTEURL=REMOTE registry:2"
using harness::Registry;
using harness::run;
using harness::slurp;
namespace fs = std::filesystem;

class Chapters : public harness::RegistryHost {
 protected:
  ~Chapters() noexcept override {}
  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(RegistryHost::SetUp());
    ok({"umoci", "init", "--layout", folder + "/image"});
    ok({"umoci", "new", "--image", folder + "/image:made"});
    ok({"umoci", "insert", "--image", folder + "/image:made", "/etc/debian_version", "/made"});
  }

  static std::string ok(const std::vector<std::string>& arguments) {
    auto result = run(arguments, 60);
    EXPECT_EQ(result.status, 0) << arguments[0] << ": " << result.err;
    return result.out;
  }

  // "docker push"
  void push(const std::string& name) {
    ok({"skopeo", "copy", "--dest-tls-verify=false", "oci:" + folder + "/image:made",
        "docker://" + name});
  }

  // Pulls an image by the node's containerd, which tries the mirrors of the registry in its config.
  static harness::Result pull(const Cluster& cluster, const std::string& node,
                              const std::string& name) {
    return cluster.talosctl({"-n", node, "image", "pull", name, "--timeout", "100s"}, 120);
  }
  // Fails the test unless the node has the image under that name afterwards.
  static void expectPulled(const Cluster& cluster, const std::string& node,
                           const std::string& name) {
    auto pulled = pull(cluster, node, name);
    EXPECT_EQ(pulled.status, 0) << node << ", " << name << ": " << pulled.err;
    EXPECT_TRUE(contains(cluster.ok({"-n", node, "image", "list"}), " " + name + " ")) << node;
  }

  // Returns the repositories of a registry, which writes a link to a blob when the blob is
  // complete.
  static std::set<std::string> linksBelow(const std::string& storage) {
    std::set<std::string> all;
    auto root = fs::path(storage) / "data";
    std::error_code gone;  // of a file that is renamed meanwhile
    for (fs::recursive_directory_iterator it(root, gone), end; it != end; it.increment(gone)) {
      if (it->path().filename() == "link") all.insert(it->path().lexically_relative(root).string());
    }
    return all;
  }

  static std::string mirrorOf(const Cluster& cluster, const std::string& node,
                              const std::string& host) {
    return cluster.ok({"-n", node, "read", "/system/etc/cri/certs.d/" + host + "/hosts.toml"});
  }
};

// The lines of the chapter, each whole and in its place; nodes have their addresses from the start,
// so a server for their configs stands where the chapter has a DHCP server. Catches: a line that is
// missing, in another place, or that has more than the chapter prints.
void checkSteps(const std::string& printed, const std::string& folder) {
  std::vector<std::string> steps;
  for (auto& line : harness::lines(printed)) {
    for (auto begin : {"validating ", "generating ", "creating ", "waiting for API"}) {
      if (line.starts_with(begin)) steps.push_back(line);
    }
  }
  const std::vector<std::string> expected = {
      "validating CIDR and reserving IPs",
      "generating PKI and tokens",
      "creating state directory in \"" + folder + "/clusters/airgapped\"",
      "creating network airgapped",
      "creating load balancer",
      "creating config server",
      "creating master nodes",
      "creating worker nodes",
      "waiting for API"};
  EXPECT_EQ(steps, expected) << printed;
}

// Catches: the address of the chapter leading nowhere, or only for servers on all addresses; a
// mirror for all registries that containerd does not ask.
TEST_F(Chapters, AirGapped) {
  Registry registry(folder, "127.0.0.1:6000");
  push("127.0.0.1:6000/talos-systems/installer:v0.9.0");
  EXPECT_TRUE(contains(ok({"skopeo", "list-tags", "--tls-verify=false",
                           "docker://127.0.0.1:6000/talos-systems/installer"}),
                       "v0.9.0"));
  const std::string image = "ghcr.io/talos-systems/installer:v0.9.0";
  {
    Cluster cluster("airgapped",
                    {"--provisioner=container", "--registry-mirror", "*=http://10.5.0.1:6000",
                     "--install-image=ghcr.io/talos-systems/installer:v0.9.0"});
    checkSteps(cluster.creation().err, cluster.folder());
    EXPECT_TRUE(cluster.creation().out.starts_with("PROVISIONER ")) << cluster.creation().out;
    EXPECT_TRUE(contains(mirrorOf(cluster, "10.5.0.2", "_default"), "http://10.5.0.1:6000"));
    for (auto node : {"10.5.0.2", "10.5.0.3"}) expectPulled(cluster, node, image);
    EXPECT_TRUE(registry.wasAsked("/v2/talos-systems/installer/manifests/v0.9.0?ns=ghcr.io"));
    EXPECT_NE(pull(cluster, "10.5.0.2", "quay.io/talos-systems/nothing:v1").status, 0);
    EXPECT_TRUE(registry.wasAsked("/v2/talos-systems/nothing/manifests/v1?ns=quay.io"));
  }
  Cluster alone("alone", {"--provisioner=container", "--no-uplink", "--workers", "0",
                          "--registry-mirror", "*=http://10.5.0.1:6000"});
  EXPECT_NE(pull(alone, "10.5.0.2", image).status, 0) << "--no-uplink shuts nobody in";
}

// Catches: a mirror that takes the requests of another, and a cache that does not cache.
TEST_F(Chapters, PullThroughCache) {
  Registry upstream(folder, "127.0.0.1:5100");
  push("127.0.0.1:5100/library/busybox:1.36");
  const std::vector<std::string> hosts = {"docker.io", "k8s.gcr.io", "quay.io", "gcr.io",
                                          "ghcr.io"};
  std::vector<std::unique_ptr<Registry>> caches;
  std::vector<std::string> flags = {"--provisioner", "container", "--workers", "1"};
  for (size_t i = 0; i < hosts.size(); ++i) {
    auto port = std::to_string(5000 + i);
    caches.push_back(
        std::make_unique<Registry>(folder, "127.0.0.1:" + port, "http://127.0.0.1:5100"));
    flags.push_back("--registry-mirror");
    flags.push_back(hosts[i] + "=http://10.5.0.1:" + port);
  }
  Cluster cluster("cached", flags);
  for (size_t i = 0; i < hosts.size(); ++i) {
    auto url = "http://10.5.0.1:" + std::to_string(5000 + i);
    EXPECT_TRUE(contains(mirrorOf(cluster, "10.5.0.2", hosts[i]), url)) << hosts[i];
  }
  const std::string image = "docker.io/library/busybox:1.36";
  expectPulled(cluster, "10.5.0.2", image);
  EXPECT_TRUE(caches[0]->wasAsked("/v2/library/busybox/manifests/1.36?ns=docker.io"));
  EXPECT_TRUE(upstream.wasAsked("/v2/library/busybox/blobs/sha256:"));
  // It has answered before it has stored all.
  auto stored = [&](const std::string& address) { return linksBelow(folder + "/" + address); };
  auto all = stored("127.0.0.1:5100");
  ASSERT_GT(all.size(), 2u);
  EXPECT_TRUE(eventually([&] { return stored("127.0.0.1:5000") == all; }, 30))
      << testing::PrintToString(stored("127.0.0.1:5000")) << " instead of "
      << testing::PrintToString(all);
  upstream.stop();
  expectPulled(cluster, "10.5.0.3", image);  // from the cache, because upstream is off
  EXPECT_NE(pull(cluster, "10.5.0.2", "k8s.gcr.io/library/busybox:1.36").status, 0)
      << "the cache of another registry answered";
  EXPECT_TRUE(caches[1]->wasAsked("/v2/library/busybox/manifests/1.36?ns=k8s.gcr.io"));
}

// "With a docker local cluster we can use docker bridge IP": an address of the host's, through NAT.
// Catches: nodes that reach the gateway and nothing else, or that and not the gateway.
TEST_F(Chapters, TheAddressOfTheDockerBridge) {
  ok({"ip", "link", "add", "docker0", "type", "bridge"});
  ok({"ip", "address", "add", "172.17.0.1/16", "dev", "docker0"});
  ok({"ip", "link", "set", "docker0", "up"});
  Registry registry(folder, "172.17.0.1:5000");
  push("172.17.0.1:5000/library/busybox:1.36");
  Cluster cluster("bridge", {"--provisioner", "docker", "--workers", "0", "--registry-mirror",
                             "docker.io=http://172.17.0.1:5000", "--registry-mirror",
                             "quay.io=http://10.5.0.1:5000"});
  EXPECT_TRUE(contains(mirrorOf(cluster, "10.5.0.2", "docker.io"), "http://172.17.0.1:5000"));
  for (std::string host : {"docker.io", "quay.io"}) {
    expectPulled(cluster, "10.5.0.2", host + "/library/busybox:1.36");
    EXPECT_TRUE(registry.wasAsked("/v2/library/busybox/manifests/1.36?ns=" + host));
  }
}

// Catches: a process in the host's network that outlives a killed supervisor.
TEST_F(Chapters, TheWayOutEndsWithItsSupervisor) {
  // Counts the processes in the network namespace that is this test's host.
  auto own = fs::read_symlink("/proc/self/ns/net");
  auto slirps = [&] {
    size_t count = 0;
    for (int pid : harness::processesWith("slirp4netns")) {
      std::error_code ignored;
      count += fs::read_symlink("/proc/" + std::to_string(pid) + "/ns/net", ignored) == own;
    }
    return count;
  };
  Cluster cluster("killed", {"--provisioner", "container", "--workers", "0"});
  EXPECT_EQ(slirps(), 1u);
  ASSERT_EQ(kill(cluster.supervisor(), SIGKILL), 0);
  EXPECT_TRUE(eventually([&] { return slirps() == 0; }, 10));
}

// Catches: etcd of an image that does not start, has other data or certificates than the system's
// own, or is not distinguished from it.
TEST_F(Chapters, EtcdOfAnImage) {
  Registry registry(folder, "127.0.0.1:6000");
  for (auto [from, to] :
       {std::pair("/usr/bin/etcd", "/usr/local/bin/etcd"),
        std::pair("/lib64/ld-linux-x86-64.so.2", "/lib64/ld-linux-x86-64.so.2"),
        std::pair("/lib/x86_64-linux-gnu/libc.so.6", "/lib/x86_64-linux-gnu/libc.so.6")}) {
    ok({"umoci", "insert", "--image", folder + "/image:made", fs::canonical(from), to});
  }
  push("127.0.0.1:6000/etcd-development/etcd:v3.5.16");
  Cluster cluster("etcdimage", {"--provisioner=container", "--workers", "0", "--registry-mirror",
                                "*=http://10.5.0.1:6000", "--bootstrap", "--config-patch",
                                R"([{"op": "add", "path": "/cluster/etcd/image",
                        "value": "10.5.0.1:6000/etcd-development/etcd:v3.5.16"}])"});
  auto members = cluster.ok({"etcd", "members"});
  EXPECT_TRUE(std::regex_search(members, std::regex(R"(etcdimage-master-1 .*false +true +OK)")))
      << members;
  EXPECT_TRUE(contains(cluster.ok({"containers"}), "etcd-development/etcd:v3.5.16"))
      << cluster.ok({"containers"});
  EXPECT_TRUE(contains(cluster.ok({"logs", "etcd"}), "\"etcd-version\"")) << "its own log";
  auto process = std::to_string(cluster.program("etcdimage-master-1", "etcd"));
  EXPECT_TRUE(contains(harness::slurp("/proc/" + process + "/status"), "\nSeccomp:\t2\n"));
  // It comes back to its data.
  cluster.ok({"service", "etcd", "restart"});
  EXPECT_TRUE(
      eventually([&] { return contains(cluster.talosctl({"etcd", "members"}).out, " OK"); }, 60));
}

}  // namespace
}  // namespace talos
