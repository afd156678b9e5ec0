// The users' chapters "Air-gapped environments" and "Configuring pull through cache", line by line:
// Debian's docker-registry on the host's loopback, clusters created with the flags as they are
// printed, and registry clients in the network of a node that use the mirrors as its config names
// them.
//
// The host is a network namespace of this process: its registries, on the ports of the chapters,
// meet nobody else's.
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

  // A whole pull by a registry client in the node's network, as containerd there would do it.
  harness::Result pull(const Cluster& cluster, const std::string& node, const std::string& name) {
    static int number = 0;
    auto target = "oci:" + folder + "/pulled" + std::to_string(++number) + ":x";
    return run({"nsenter", "--net=/proc/" + std::to_string(cluster.process(node)) + "/ns/net",
                "skopeo", "copy", "--src-tls-verify=false", "docker://" + name, target},
               60);
  }

  // The repositories of a registry: a link to a blob is written when all of the blob is there.
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

// Catches: the address of the chapter leading nowhere, or only for servers on all addresses.
TEST_F(Chapters, AirGapped) {
  Registry registry(folder, "127.0.0.1:6000");
  push("127.0.0.1:6000/talos-systems/installer:v0.9.0");
  EXPECT_TRUE(contains(ok({"skopeo", "list-tags", "--tls-verify=false",
                           "docker://127.0.0.1:6000/talos-systems/installer"}),
                       "v0.9.0"));
  const std::string image = "10.5.0.1:6000/talos-systems/installer:v0.9.0";
  {
    Cluster cluster("airgapped",
                    {"--provisioner=container", "--registry-mirror", "*=http://10.5.0.1:6000",
                     "--install-image=ghcr.io/talos-systems/installer:v0.9.0"});
    EXPECT_TRUE(contains(cluster.creation().err, "waiting for API")) << cluster.creation().err;
    EXPECT_TRUE(cluster.creation().out.starts_with("PROVISIONER ")) << cluster.creation().out;
    EXPECT_TRUE(contains(mirrorOf(cluster, "10.5.0.2", "_default"), "http://10.5.0.1:6000"));
    for (auto node : {"airgapped-master-1", "airgapped-worker-1"}) {
      auto pulled = pull(cluster, node, image);
      EXPECT_EQ(pulled.status, 0) << node << ": " << pulled.err;
    }
    EXPECT_TRUE(registry.wasAsked("GET /v2/talos-systems/installer/manifests/v0.9.0"));
    EXPECT_NE(pull(cluster, "airgapped-master-1", "10.5.0.1:6001/talos-systems/installer").status,
              0);
  }
  Cluster alone("alone", {"--provisioner=container", "--no-uplink", "--workers", "0"});
  EXPECT_NE(pull(alone, "alone-master-1", image).status, 0) << "--no-uplink shuts nobody in";
}

// Catches: one mirror that takes the requests of another, and a cache that is none.
TEST_F(Chapters, PullThroughCache) {
  Registry upstream(folder, "127.0.0.1:5100");
  push("127.0.0.1:5100/library/busybox:1.36");
  const std::vector<std::string> hosts = {"docker.io", "k8s.gcr.io", "quay.io", "gcr.io",
                                          "ghcr.io"};
  std::vector<std::unique_ptr<Registry>> caches;
  std::vector<std::string> flags = {"--provisioner", "container", "--workers", "0"};
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
  const std::string image = "10.5.0.1:5000/library/busybox:1.36";
  auto first = pull(cluster, "cached-master-1", image);
  EXPECT_EQ(first.status, 0) << first.err;
  EXPECT_TRUE(caches[0]->wasAsked("GET /v2/library/busybox/manifests/1.36"));
  EXPECT_TRUE(upstream.wasAsked("/v2/library/busybox/blobs/sha256:"));
  // It has answered before it has stored all.
  auto stored = [&](const std::string& address) { return linksBelow(folder + "/" + address); };
  auto all = stored("127.0.0.1:5100");
  ASSERT_GT(all.size(), 2u);
  EXPECT_TRUE(eventually([&] { return stored("127.0.0.1:5000") == all; }, 30))
      << testing::PrintToString(stored("127.0.0.1:5000")) << " instead of "
      << testing::PrintToString(all);
  upstream.stop();
  auto again = pull(cluster, "cached-master-1", image);
  EXPECT_EQ(again.status, 0) << "not from the cache: " << again.err;
  EXPECT_NE(pull(cluster, "cached-master-1", "10.5.0.1:5001/library/busybox:1.36").status, 0)
      << "the cache of another registry answered";
}

// "With a docker local cluster we can use docker bridge IP": an address of the host's, through NAT.
// Catches: nodes that reach the gateway and nothing else.
TEST_F(Chapters, TheAddressOfTheDockerBridge) {
  ok({"ip", "link", "add", "docker0", "type", "bridge"});
  ok({"ip", "address", "add", "172.17.0.1/16", "dev", "docker0"});
  ok({"ip", "link", "set", "docker0", "up"});
  Registry registry(folder, "172.17.0.1:5000");
  push("172.17.0.1:5000/library/busybox:1.36");
  Cluster cluster("bridge", {"--provisioner", "docker", "--workers", "0", "--registry-mirror",
                             "docker.io=http://172.17.0.1:5000"});
  EXPECT_TRUE(contains(mirrorOf(cluster, "10.5.0.2", "docker.io"), "http://172.17.0.1:5000"));
  for (auto mirror : {"172.17.0.1:5000", "10.5.0.1:5000"}) {
    auto pulled = pull(cluster, "bridge-master-1", std::string(mirror) + "/library/busybox:1.36");
    EXPECT_EQ(pulled.status, 0) << mirror << ": " << pulled.err;
  }
}

// Catches: a process in the host's network that a killed supervisor leaves behind.
TEST_F(Chapters, TheWayOutEndsWithItsSupervisor) {
  // Of the network that is this test's host.
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
