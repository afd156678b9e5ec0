// Pods and the metadata service of a platform, through the packet filter of the real kernel: the
// node, a pod whose packets the node forwards, and the service are network namespaces, and networkd
// runs as on a node.
#include "common/testing/test-namespace.h"
#include "machined/platforms/platform.h"
#include "networkd/plan/metadata-rules.h"
#include "tests/harness/web.h"
#include "tests/network/place.h"

namespace talos {
namespace {

using harness::Manner;

constexpr auto kToken = "PUT /latest/api/token HTTP/1.1\r\nHost: x\r\n\r\n"_kj;
constexpr auto kAwsData = "GET /latest/user-data HTTP/1.1\r\nHost: x\r\n\r\n"_kj;
constexpr auto kHetznerData = "GET /hetzner/v1/userdata HTTP/1.1\r\nHost: x\r\n\r\n"_kj;
constexpr uint16_t kHttp = 80;

// A node on a platform, a pod of it, and the platform's metadata service.
class Cloud {
 public:
  Place service, pod;
  Node node{service.fd.get()};
  const platforms::Platform& platform;
  Ip v4 = Ip::require("169.254.169.254");

  explicit Cloud(const platforms::Platform& platform) : platform(platform) {
    netlink::addVeth(*node.kernel, "pod0", "inside");
    netlink::move(netlink::indexOf(*node.kernel, "inside"), pod.fd);
    write("ipv4/ip_forward", "1");
    for (auto link : {"eth0", "pod0"}) write(kj::str("ipv6/conf/", link, "/disable_ipv6"), "0");
    write("ipv6/conf/all/forwarding", "1");
    for (auto address : platform.metadata) {
      service.address("lo", kj::str(address, isSix(address) ? "/128" : "/32"));
    }
    node.putLink();
    node.putAddress("10.5.0.2/24");
    node.putRoute("10.5.0.1");
    ends();
    node.serve();
    node.start();
    node.until("the network", [&] { return node.applied(3); });
    web = kj::heap<harness::Web>(service.pid, "169.254.169.254", kHttp);
    web->answerTo("PUT /latest/api/token ", Manner::kGood, "dG9rZW4=");
    web->answerTo("GET /latest/user-data ", Manner::kGood, "machine: {}");
    web->answerTo("GET /hetzner/v1/userdata ", Manner::kGood, "bWFjaGluZToge30K");
  }

  kj::Own<harness::Web> web;

  void block() {
    node.put<rpc::MetadataBlockSpecSpec>(platform.name, [&](auto spec) {
      auto list = spec.initAddresses(platform.metadata.size());
      for (auto i : kj::indices(platform.metadata)) list.set(i, platform.metadata[i]);
    });
    node.until("the rules", [&] { return blocked() == platform.metadata.size(); });
  }
  // The addresses that are reported.
  size_t blocked() {
    KJ_IF_MAYBE (status, node.store.tryGet<rpc::MetadataBlockStatusSpec>(platform.name)) {
      KJ_REQUIRE(status->getProblem().size() == 0, status->getProblem());
      return status->getAddresses().size();
    }
    return 0;
  }
  uint64_t reported() {
    KJ_IF_MAYBE (status, node.store.tryGet<rpc::MetadataBlockStatusSpec>(platform.name)) {
      return status->getDropped();
    }
    return 0;
  }
  kj::Vector<networkd::FilterRule> rules() {
    kj::Vector<networkd::FilterRule> found;
    for (auto& message : filter.dump(networkd::encodeRuleDump(networkd::kMetadataTable), "rules")) {
      KJ_IF_MAYBE (part, message.body.tryGet<netlink::Generic>()) {
        KJ_IF_MAYBE (rule, networkd::readRule(*part, networkd::kMetadataTable))
          found.add(kj::mv(*rule));
      }
    }
    return found;
  }
  uint64_t dropped() {
    uint64_t packets = 0;
    for (auto& rule : rules()) packets += rule.packets;
    return packets;
  }

  Request ofPod(const Ip& to, uint16_t port, kj::StringPtr text) {
    return pod.within([&] { return Request(to, port, text); });
  }
  // The answer, or "dropped": the kernel has counted the packet, and there is no connection.
  std::string podGets(kj::StringPtr text) {
    auto before = dropped();
    auto request = ofPod(v4, kHttp, text);
    return resultOf(request, before);
  }
  std::string nodeGets(kj::StringPtr text) {
    auto before = dropped();
    Request request(v4, kHttp, text);
    return resultOf(request, before);
  }
  std::string resultOf(Request& request, uint64_t before) {
    bool drops = false;
    node.until("an answer or a dropped packet", [&] {
      drops = dropped() > before && !request.connected();
      return drops || request.answered();
    });
    auto body = request.answer.find("\r\n\r\n");
    return drops ? "dropped" : body == std::string::npos ? "none" : request.answer.substr(body + 4);
  }

  static bool isSix(kj::StringPtr address) { return address.findFirst(':') != nullptr; }

 private:
  netlink::Socket filter{NETLINK_NETFILTER, 5 * kj::SECONDS};

  static void write(kj::StringPtr setting, kj::StringPtr value) {
    kj::AutoCloseFd fd(open(kj::str("/proc/sys/net/", setting).cStr(), O_WRONLY | O_CLOEXEC));
    KJ_SYSCALL(::write(fd, value.begin(), value.size()), setting);
  }
  // Addresses and routes of all but the node's own link.
  void ends() {
    auto& here = *node.kernel;
    auto pod0 = netlink::indexOf(here, "pod0");
    auto add = [&](unsigned link, kj::StringPtr prefix) {
      netlink::change(here, netlink::AddAddress{{.link = link,
                                                 .prefix = KJ_ASSERT_NONNULL(Prefix::parse(prefix)),
                                                 .flags = IFA_F_NODAD}});
    };
    netlink::setUp(here, pod0);
    netlink::setUp(here, node.eth0);
    add(pod0, "10.244.0.1/24");
    add(pod0, "fd00:244::1/64");
    add(node.eth0, "fd00:5::2/64");
    pod.address("inside", "10.244.0.2/24");
    pod.address("inside", "fd00:244::2/64");
    netlink::setUp(*pod.kernel, netlink::indexOf(*pod.kernel, "inside"));
    pod.route("0.0.0.0/0", "10.244.0.1", "inside");
    pod.route("::/0", "fd00:244::1", "inside");
    service.address("peer", "10.5.0.1/24");
    service.address("peer", "fd00:5::1/64");
    netlink::setUp(*service.kernel, netlink::indexOf(*service.kernel, "peer"));
    service.route("10.244.0.0/24", "10.5.0.2", "peer");
    service.route("fd00:244::/64", "fd00:5::2", "peer");
    netlink::change(here,
                    netlink::AddRoute{{.destination = Prefix::host(Ip::require("fd00:ec2::254")),
                                       .gateway = Ip::require("fd00:5::1"),
                                       .link = node.eth0}});
  }
};

// Catches: a pod that reads the machine config of a node; a filter that keeps the node from it too,
// or goes with networkd; a key that permits it without an effect; the same rules twice, or
// replaced, after a restart.
TEST(MetadataBlock, PodsGetNoAnswerAndTheNodeDoes) {
  for (auto* platform : {&platforms::kAws, &platforms::kHetzner}) {
    SCOPED_TRACE(platform->name.cStr());
    inNamespace([&] {
      Cloud cloud(*platform);
      auto& node = cloud.node;
      auto text = platform == &platforms::kAws ? kAwsData : kHetznerData;
      std::string config = platform == &platforms::kAws ? "machine: {}" : "bWFjaGluZToge30K";
      ASSERT_EQ(cloud.podGets(text), config) << "the way of the packets";
      cloud.block();
      EXPECT_EQ(cloud.podGets(kToken), "dropped");
      EXPECT_EQ(cloud.podGets(text), "dropped");
      EXPECT_EQ(cloud.nodeGets(text), config);
      auto count = cloud.rules().size();
      EXPECT_EQ(count, platform->metadata.size() + 5);

      node.kill();
      EXPECT_EQ(cloud.podGets(text), "dropped");
      auto packets = cloud.dropped();
      EXPECT_GE(packets, 3u);
      node.start();
      // Only rules that were left alone have the count.
      node.until("the count", [&] { return cloud.reported() >= packets; });
      EXPECT_EQ(cloud.rules().size(), count);
      EXPECT_EQ(cloud.podGets(text), "dropped");

      node.store.destroy("", typeName<rpc::MetadataBlockSpecSpec>(), platform->name, "test");
      node.until("no rules", [&] { return cloud.rules().empty(); });
      EXPECT_EQ(cloud.podGets(text), config);
      node.until("no status", [&] {
        return node.store.tryGet<rpc::MetadataBlockStatusSpec>(platform->name) == nullptr;
      });
    });
  }
}

// Catches: one of the two families without rules; CoreDNS of a pod that gets no answers where the
// service is also the name server; probes of a load balancer that pods cannot answer.
TEST(MetadataBlock, BothFamiliesAndNothingElse) {
  inNamespace([] {
    Cloud cloud(platforms::kAws);
    auto& node = cloud.node;
    cloud.block();
    constexpr uint16_t kDns = 53, kOther = 8080;
    auto v6 = Ip::require("fd00:ec2::254");
    auto at = [&](const Ip& ip, uint16_t port, int type = SOCK_STREAM) {
      return cloud.service.within([&] { return boundSocket(ip, port, type); });
    };
    auto neighbour = at(Ip::require("10.5.0.1"), kOther);
    auto web6 = at(v6, kHttp), other = at(cloud.v4, kOther), dnsTcp = at(cloud.v4, kDns),
         dnsUdp = at(cloud.v4, kDns, SOCK_DGRAM);
    auto connects = [&](auto&& begin) {
      auto before = cloud.dropped();
      auto request = begin();
      bool drops = false;
      node.until("a connection or a dropped packet", [&] {
        drops = cloud.dropped() > before && !request.connected();
        return drops || request.connected();
      });
      return !drops;
    };
    EXPECT_TRUE(connects([&] { return Request(v6, kHttp, "x"); }));
    EXPECT_FALSE(connects([&] { return cloud.ofPod(v6, kHttp, "x"); }));
    EXPECT_FALSE(connects([&] { return cloud.ofPod(cloud.v4, kOther, "x"); }));

    EXPECT_TRUE(connects([&] { return cloud.ofPod(cloud.v4, kDns, "x"); }));
    auto query = cloud.pod.within([&] { return openSocket(cloud.v4, SOCK_DGRAM); });
    Name name(cloud.v4, kDns);
    KJ_SYSCALL(sendto(query, "?", 1, 0, name.get(), name.size));
    node.until("the query", [&] {
      char byte;
      return recv(dnsUdp, &byte, 1, 0) == 1;
    });

    auto inPod = Ip::require("10.244.0.2");
    auto served = cloud.pod.within([&] { return boundSocket(inPod, kOther, SOCK_STREAM); });
    EXPECT_TRUE(connects([&] {
      return cloud.service.within(
          [&] { return Request(inPod, kOther, "are you there?", cloud.v4); });
    }));
    EXPECT_TRUE(connects([&] { return cloud.ofPod(Ip::require("10.5.0.1"), kOther, "x"); }))
        << "another address";
  });
}

}  // namespace
}  // namespace talos
