// The network snippets of the users' documents, from their text to the kernel, read back by
// programs that are not ours: iproute2 and the files of the drivers.
#include <fcntl.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>

#include <string>

#include "common/file.h"
#include "machined/controllers/machine-config.h"
#include "networkd/specs.h"
#include "tests/kernel/namespaces.h"

namespace talos {
namespace {

constexpr kj::StringPtr kPrivate = "YAnz5TF+lXXJte14tji3zlMNq+hd2rYUIgJBgB3fBmk="_kj;
constexpr kj::StringPtr kPeer = "xTIBA5rboUvnH4htodjb6e697QjLERt1NAB4mZqp8Dg="_kj;

// What `ip` says; it is in the guest beside the test.
kj::String ip(std::initializer_list<const char*> words) {
  kj::Vector<char*> arguments;
  arguments.add(const_cast<char*>("ip"));
  for (auto word : words) arguments.add(const_cast<char*>(word));
  arguments.add(nullptr);
  int ends[2];
  KJ_SYSCALL(pipe2(ends, O_CLOEXEC));
  kj::AutoCloseFd out(ends[0]), in(ends[1]);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in, 1);
  pid_t child;
  int code = posix_spawn(&child, "/usr/sbin/ip", &actions, nullptr, arguments.begin(), environ);
  posix_spawn_file_actions_destroy(&actions);
  KJ_REQUIRE(code == 0, "cannot run ip", strerror(code));
  in = nullptr;
  std::string text;
  char buffer[4096];
  for (ssize_t size; (size = read(out, buffer, sizeof(buffer))) > 0;) text.append(buffer, size);
  int status;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  return kj::str(text.c_str());
}

void expectAll(const kj::String& text, std::initializer_list<kj::StringPtr> parts) {
  for (auto part : parts) {
    EXPECT_TRUE(strstr(text.cStr(), part.cStr()) != nullptr) << part.cStr() << "\nin\n"
                                                             << text.cStr();
  }
}

// All of the way: the text of a document, its view, the specs as they stand in the store, the plan.
void applyText(kj::StringPtr interfaces) {
  auto view =
      machined::viewMachineConfig(kj::str("version: v1alpha1\n"
                                          "machine:\n"
                                          "  type: worker\n"
                                          "  token: abcdef.0123456789abcdef\n"
                                          "  install: {disk: /dev/sda}\n"
                                          "  network:\n"
                                          "    interfaces:\n",
                                          interfaces,
                                          "cluster:\n"
                                          "  controlPlane: {endpoint: 'https://10.0.0.1:6443'}\n"));
  KernelArguments arguments(""_kj.asArray());
  auto network = machined::planNetwork(arguments, view.network, nullptr);
  EXPECT_EQ(kj::strArray(network.problems, "\n"), "");
  networkd::Wanted wanted;
  for (auto& link : network.links) {
    capnp::MallocMessageBuilder message;
    auto spec = message.initRoot<rpc::LinkSpecSpec>();
    spec.setName(link.name);
    spec.setUp(true);
    spec.setMtu(link.mtu);
    link.making.fill(spec);
    networkd::addLink(wanted, link.name, 1, spec.asReader());
    if (link.making.wireguard == nullptr) continue;
    auto key = message.initRoot<rpc::WireguardKeySpec>();
    key.setPrivateKey(kPrivate);
    networkd::addWireguardKey(wanted, link.name, key.asReader());
  }
  for (auto& address : network.addresses) {
    wanted.addresses.add(
        networkd::WantedAddress{.link = kj::str(address.link), .prefix = address.prefix});
  }
  for (auto& route : network.routes) {
    wanted.routes.add(networkd::WantedRoute{.link = kj::str(route.link),
                                            .destination = route.destination,
                                            .gateway = route.gateway,
                                            .metric = route.metric});
  }
  EXPECT_EQ(kj::strArray(wanted.problems, "\n"), "");
  auto kernel = netlink::openKernel();
  for (unsigned round = 0; round < 8; ++round) {
    auto todo = networkd::plan(wanted, networkd::observe(*kernel, true, 1000000000));
    if (todo.steps.size() == 0) {
      EXPECT_EQ(kj::strArray(todo.problems, "\n"), "");
      return;
    }
    auto changes = KJ_MAP(step, todo.steps) {
      return kj::mv(step.change);
    };
    for (auto& failure : kernel->apply(changes)) {
      KJ_IF_MAYBE (f, failure) ADD_FAILURE() << f->message.cStr();
    }
  }
  ADD_FAILURE() << "does not settle";
}

class Documents : public testing::Test {
 public:
  ~Documents() noexcept override {}

 protected:
  Namespace ns;
  // With the cards eth0 and eth1.
  void inside(kj::Function<void()> body) {
    ns.run([&] {
      auto kernel = netlink::openKernel();
      for (auto name : {"eth0"_kj, "eth1"_kj}) {
        netlink::addLink(*kernel, name, netlink::Veth{kj::str("far-", name)});
        netlink::setUp(*kernel, netlink::indexOf(*kernel, kj::str("far-", name)));
      }
      body();
    });
  }
};

// The snippets of the documents, from here on. Catches: a value that arrives as another.
TEST_F(Documents, severalAddressesOnLoopback) {
  inside([] {
    applyText(
        "      - interface: lo0\n"
        "        cidr: 192.168.0.21/24\n"
        "      - interface: lo0\n"
        "        cidr: 10.2.2.2/24\n");
    expectAll(
        ip({"-j", "address", "show", "dev", "lo"}),
        {"\"local\":\"127.0.0.1\",\"prefixlen\":8", "\"local\":\"192.168.0.21\",\"prefixlen\":24",
         "\"local\":\"10.2.2.2\",\"prefixlen\":24"});
  });
}

TEST_F(Documents, bonding) {
  inside([] {
    applyText(
        "      - interface: bond0\n"
        "        dhcp: true\n"
        "        bond:\n"
        "          mode: 802.3ad\n"
        "          lacpRate: fast\n"
        "          xmitHashPolicy: layer3+4\n"
        "          miimon: 100\n"
        "          updelay: 200\n"
        "          downdelay: 200\n"
        "          interfaces:\n"
        "            - eth0\n"
        "            - eth1\n");
    expectAll(ip({"-d", "-j", "link", "show", "dev", "bond0"}),
              {"\"info_kind\":\"bond\"", "\"mode\":\"802.3ad\"", "\"miimon\":100",
               "\"updelay\":200", "\"downdelay\":200", "\"ad_lacp_rate\":\"fast\"",
               "\"xmit_hash_policy\":\"layer3+4\"", "\"group\":\"116\""});
    expectAll(readFile("/proc/thread-self/net/bonding/bond0"),
              {"Bonding Mode: IEEE 802.3ad Dynamic link aggregation",
               "Transmit Hash Policy: layer3+4 (1)", "MII Polling Interval (ms): 100",
               "Up Delay (ms): 200", "Down Delay (ms): 200", "LACP rate: fast",
               "Slave Interface: eth0", "Slave Interface: eth1"});
  });
}

TEST_F(Documents, vlans) {
  inside([] {
    applyText(
        "      - interface: eth0\n"
        "        dhcp: false\n"
        "        vlans:\n"
        "          - vlanId: 100\n"
        "            cidr: \"192.168.2.10/28\"\n"
        "            routes:\n"
        "              - network: 0.0.0.0/0\n"
        "                gateway: 192.168.2.1\n");
    expectAll(
        ip({"-d", "-j", "link", "show", "dev", "eth0.100"}),
        {"\"link\":\"eth0\"", "\"info_kind\":\"vlan\"", "\"protocol\":\"802.1Q\",\"id\":100"});
    expectAll(ip({"-j", "address", "show", "dev", "eth0.100"}),
              {"\"local\":\"192.168.2.10\",\"prefixlen\":28"});
    expectAll(ip({"-j", "route", "show", "default"}),
              {"\"gateway\":\"192.168.2.1\",\"dev\":\"eth0.100\"", "\"metric\":10"});
  });
}

// The list dash and the colon of the endpoint are missing in the document; keys are only hinted at.
TEST_F(Documents, wireguard) {
  inside([] {
    applyText(
        kj::str("      - interface: wg0\n"
                "        mtu: 1500\n"
                "        cidr: 192.168.2.1/24\n"
                "        wireguard:\n"
                "          privateKey: ",
                kPrivate,
                "\n"
                "          listenPort: 51820\n"
                "          peers:\n"
                "            allowedIPs:\n"
                "              - 192.168.88.0/24\n"
                "            endpoint: 209.202.254.14.8172\n"
                "            publicKey: ",
                kPeer, "\n"));
    expectAll(ip({"-d", "-j", "link", "show", "dev", "wg0"}),
              {"\"info_kind\":\"wireguard\"", "\"mtu\":1500", "UP"});
    auto kernel = netlink::openKernel();
    auto device = kernel->wireguard(netlink::indexOf(*kernel, "wg0"));
    EXPECT_EQ(device.listenPort, 51820);
    ASSERT_EQ(device.peers.size(), 1u);
    EXPECT_EQ(netlink::toText(device.peers[0].publicKey), kPeer);
    EXPECT_EQ(device.peers[0].endpoint->toString(), "209.202.254.14:8172");
    ASSERT_EQ(device.peers[0].allowed.size(), 1u);
    EXPECT_EQ(device.peers[0].allowed[0], prefix("192.168.88.0/24"));
  });
}

}  // namespace
}  // namespace talos
