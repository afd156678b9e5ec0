// Machines on platforms: a model of the metadata service in the cluster's network, at the real
// one's address, is all that they get their config from.
#include <gtest/gtest.h>
#include <kj/encoding.h>

#include "tests/harness/cluster.h"
#include "tests/harness/web.h"

namespace talos {
namespace {

using harness::Cluster;
using harness::contains;
using harness::eventually;
using harness::Manner;
using harness::slurp;
using harness::Web;

constexpr const char* kService = "169.254.169.254";
constexpr double kBoot = 240;

class Platform {
 public:
  Platform(const std::string& name, const std::string& arguments)
      : cluster(name, {"--masters", "1", "--workers", "0", "--memory", "384", "--wait=false",
                       "--skip-injecting-config", "--extra-boot-kernel-args", arguments}),
        name(name) {
    auto added =
        harness::run({"nsenter", "--net=/proc/" + std::to_string(cluster.supervisor()) + "/ns/net",
                      "ip", "address", "add", std::string(kService) + "/32", "dev", "lo"});
    EXPECT_EQ(added.status, 0) << added.err;
    web = std::make_unique<Web>(cluster.supervisor(), kService, 80);
  }

  std::string config() const {
    return slurp(cluster.stateFolder() + "/" + name + "-master-1.yaml");
  }
  std::string console() const {
    auto text = cluster.console(name + "-master-1");
    return text.size() < 4000 ? text : text.substr(text.size() - 4000);
  }
  std::string get(const std::string& what) const {
    return cluster
        .talosctl({"-n", Cluster::kFirst, "--timeout", "5s", "get", what, "-o", "yaml"}, 20)
        .out;
  }
  bool shows(const std::string& what, const std::string& text, double seconds = kBoot) const {
    return eventually([&] { return contains(get(what), text); }, seconds, 0.5);
  }

  Cluster cluster;
  std::string name;
  std::unique_ptr<Web> web;
};

}  // namespace

// Catches: a config that is requested without the token, or given up while the service is down;
// facts that do not reach the resources; a certificate without the address that clients use.
TEST(Platforms, Amazon) {
  Platform node("amazon", "talos.platform=aws");
  auto& web = *node.web;
  web.answerTo("PUT /latest/api/token ", Manner::kGood, "dG9rZW4=");
  web.answerTo("GET /latest/user-data ", Manner::kReset, "half");
  ASSERT_TRUE(eventually(
      [&] { return contains(node.console(), "169.254.169.254/latest/user-data: "); }, kBoot, 0.2))
      << node.console();
  EXPECT_TRUE(contains(web.heard(Cluster::kFirst), "X-aws-ec2-metadata-token: dG9rZW4="))
      << web.heard(Cluster::kFirst);
  web.answerTo("GET /latest/meta-data/instance-id ", Manner::kGood, "i-0abc");
  web.answerTo("GET /latest/meta-data/placement/region ", Manner::kGood, "eu-test-1");
  web.answerTo("GET /latest/meta-data/placement/availability-zone ", Manner::kGood, "eu-test-1a");
  web.answerTo("GET /latest/meta-data/public-ipv4 ", Manner::kGood, "203.0.113.7");
  web.answerTo("GET /latest/user-data ", Manner::kGood, node.config());
  ASSERT_TRUE(node.shows("machinetype", "controlplane")) << node.console();
  EXPECT_TRUE(node.shows("platformmetadata", "providerId: aws:///eu-test-1a/i-0abc"))
      << node.get("platformmetadata");
  EXPECT_TRUE(node.shows("platformconfigs", "203.0.113.7")) << node.get("platformconfigs");
  auto certificate =
      harness::run({"sh", "-c",
                    "nsenter --net=/proc/" + std::to_string(node.cluster.supervisor()) +
                        "/ns/net openssl s_client -connect 10.5.0.2:50000 </dev/null 2>/dev/null | "
                        "openssl x509 -noout -ext subjectAltName"},
                   60);
  EXPECT_TRUE(contains(certificate.out, "203.0.113.7")) << certificate.out << certificate.err;
}

// Catches: a network that only the lease or the command line may state; a name from DHCP, or no
// name; maintenance because the user data is in base64.
TEST(Platforms, HetznerWithAStaticNetwork) {
  Platform node("hetzner", "talos.platform=hcloud");
  auto& web = *node.web;
  auto config = node.config();
  // A link that the machine does not have: the platform's network is all that eth0 gets.
  const std::string link = "interface: eth0";
  ASSERT_NE(config.find(link), std::string::npos);
  config.replace(config.find(link), link.size(), "interface: eth9");
  web.answerTo("GET /hetzner/v1/metadata/instance-id ", Manner::kGood, "4711");
  web.answerTo("GET /hetzner/v1/metadata/availability-zone ", Manner::kGood, "fsn1-dc14");
  web.answerTo("GET /hetzner/v1/metadata/network-config ", Manner::kGood,
               "version: 1\nconfig:\n- type: physical\n  name: eth0\n  subnets:\n"
               "  - {type: static, address: 10.5.0.2/24, gateway: 10.5.0.1}\n"
               "  - {type: static, address: \"2001:db8::2/64\"}\n");
  web.answerTo("GET /hetzner/v1/userdata ", Manner::kGood,
               kj::encodeBase64(kj::StringPtr(config.c_str()).asBytes()).cStr());
  ASSERT_TRUE(node.shows("machinetype", "controlplane")) << node.console();
  EXPECT_TRUE(node.shows("addresses", "2001:db8::2/64")) << node.get("addresses");
  EXPECT_TRUE(node.shows("platformmetadata", "region: fsn1")) << node.get("platformmetadata");
  EXPECT_TRUE(contains(node.get("addressspecs"), "layer: platform")) << node.get("addressspecs");
}

}  // namespace talos
