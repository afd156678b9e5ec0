// Methods with code, against models of the parts of a node that they call.
#include <zlib.h>

#include "apid/grpc/test-machine-model.h"

namespace talos::grpcapi {
namespace {

using namespace testing;

// Catches: a number of MemInfo that is another field's; a number for a field that Talos
// lacks.
TEST_F(MachineMethodsTest, Memory) {
  TestCall call("/machine.MachineService/Memory");
  EXPECT_EQ("0 ", run(call));
  auto memory = call.message(0).in(1).in(2);
  EXPECT_EQ(3u, memory.fields.size());
  EXPECT_EQ(100u, memory.number(1));
  EXPECT_EQ(9u, memory.number(9));
  EXPECT_EQ(41u, memory.number(41));
}

// Catches: lists whose items cost a node nothing, and apid a second each.
TEST_F(MachineMethodsTest, ListsAreBounded) {
  bed.items = 65'537;
  for (auto path : {"/machine.MachineService/Memory", "/machine.MachineService/Netstat"}) {
    TestCall call(path);
    EXPECT_EQ("8 the node has sent a list of 65537 items; at most 65536 are read", run(call));
  }
}

// Catches: sockets that the client did not request; a missing process that a client dereferences.
TEST_F(MachineMethodsTest, Netstat) {
  auto sockets = [&](uint64_t which, bool tcpOnly) {
    TestCall call("/machine.MachineService/Netstat", request([&](WireWriter& out) {
                    out.varint(1, which);
                    if (tcpOnly) out.bytes(3, "\x08\x01"_kj.asBytes());
                  }));
    EXPECT_EQ("0 ", run(call));
    return call.message(0).in(1);
  };
  auto all = sockets(0, false);
  ASSERT_EQ(3u, all.count(2));
  EXPECT_EQ(10u, all.in(2, 0).number(6));
  EXPECT_TRUE(all.in(2, 0).has(17)) << "the process";
  EXPECT_EQ("kubelet", all.in(2, 1).in(17).text(2));
  EXPECT_EQ(7u, all.in(2, 2).number(6)) << "UDP";
  EXPECT_EQ(2u, sockets(0, true).count(2));
  EXPECT_EQ(1u, sockets(1, false).count(2)) << "connected";
  EXPECT_EQ(1u, sockets(2, true).count(2)) << "listening";
}

// Catches: sockets of networks that the client did not request; the node's sockets among them or
// missing; a pod on the node's network that is listed twice; a network whose name differs from its
// pod's record; an ended network that looks like one without sockets.
TEST_F(MachineMethodsTest, NetstatOfPods) {
  bed.pods.pods = {{"default/web", 7, "4026532001"},
                   {"default/gone", 8, "4026532002", true},
                   {"kube-system/kube-proxy", 9, bed.pods.own},
                   {"kube-system/z", 10, "4026532003"}};
  // Returns "50000 1007:4026532001": ports, and the networks other than the node's.
  auto sockets = [&](bool ofNode, std::vector<const char*> names, bool all) {
    TestCall call("/machine.MachineService/Netstat", request([&](WireWriter& out) {
                    WireWriter networks;
                    networks.varint(1, ofNode);
                    for (auto name : names) networks.text(2, name);
                    networks.varint(3, all);
                    out.bytes(4, networks.written());
                  }));
    auto status = run(call);
    if (status != "0 ") return status;
    std::string list;
    auto answer = call.message(0).in(1);
    for (size_t i = 0; i < answer.count(2); ++i) {
      auto record = answer.in(2, i);
      list += (i > 0 ? " " : "") + std::to_string(record.number(3));
      if (record.has(18)) list += ":" + record.text(18);
    }
    return list;
  };
  EXPECT_EQ("50000 0 0 1007:4026532001 1010:4026532003", sockets(true, {}, true));
  EXPECT_EQ("1007:4026532001 1010:4026532003", sockets(false, {}, true));
  EXPECT_EQ("1010:4026532003", sockets(false, {"4026532003"}, false));
  EXPECT_EQ("50000 0 0 1010:4026532003", sockets(true, {"4026532003"}, false));
  EXPECT_EQ("", sockets(false, {}, false));
  EXPECT_EQ("5 no pod has the network namespace \"cni-1\"", sockets(true, {"cni-1"}, false));
  bed.pods.error = "Permission denied";
  EXPECT_EQ("14 /proc/self/ns: Permission denied", sockets(true, {}, true));
}

// Catches: a pod without the name by which clients request its sockets; a name on a container, or
// on a pod on the node's network, whose sockets would be the node's.
TEST_F(MachineMethodsTest, PodsNameTheirNetworks) {
  bed.pods.pods = {{"default/web", 7, "4026532001"}, {"kube-system/kube-proxy", 9, bed.pods.own}};
  auto containers = [&]() {
    TestCall call("/machine.MachineService/Containers",
                  request([](WireWriter& out) { out.text(1, "k8s.io"); }));
    EXPECT_EQ("0 ", run(call));
    std::string list;
    auto answer = call.message(0).in(1);
    for (size_t i = 0; i < answer.count(2); ++i) {
      auto record = answer.in(2, i);
      list += record.text(2) + " " + record.text(6) + " " + record.text(8) + "\n";
    }
    return list;
  };
  EXPECT_EQ(
      "default/web default/web 4026532001\n"
      "default/web:main default/web \n"
      "kube-system/kube-proxy kube-system/kube-proxy \n"
      "kube-system/kube-proxy:main kube-system/kube-proxy \n",
      containers());
  bed.pods.refused = true;
  EXPECT_EQ(std::string::npos, containers().find("4026532001")) << "too many reads are open";
}

// Catches: a cut list that looks complete; a cut list that is withheld; an error that a client
// cannot tell from an error of the whole call.
TEST_F(MachineMethodsTest, ReportsSocketsThatAreLeftOut) {
  bed.leftOut = 5;
  auto check = [&](TestCall& call) {
    EXPECT_EQ("0 ", run(call));
    auto reply = call.message(0);
    ASSERT_EQ(2u, reply.count(1));
    EXPECT_EQ(3u, reply.in(1, 0).count(2));
    EXPECT_FALSE(reply.in(1, 0).in(1).has(2)) << "an error";
    auto cut = reply.in(1, 1);
    EXPECT_FALSE(cut.has(2));
    EXPECT_EQ(
        "rpc error: code = ResourceExhausted desc = the node has 5 more sockets than an answer "
        "holds (3); they are not in this list",
        cut.in(1).text(2));
    EXPECT_EQ(8u, cut.in(1).in(3).number(1));
  };
  TestCall local("/machine.MachineService/Netstat");
  check(local);
  cluster->nodes.insert({"10.0.0.2", kj::heap<FakeNode>(bed)});
  TestCall named("/machine.MachineService/Netstat");
  named.toNodes({"10.0.0.2"});
  check(named);
  EXPECT_EQ("10.0.0.2", named.message(0).in(1, 0).in(1).text(1));
  EXPECT_EQ("10.0.0.2", named.message(0).in(1, 1).in(1).text(1));
}

TEST_F(MachineMethodsTest, Dependencies) {
  TestCall call("/inspect.InspectService/ControllerRuntimeDependencies");
  EXPECT_EQ("0 ", run(call));
  auto dependencies = call.message(0).in(1);
  ASSERT_EQ(2u, dependencies.count(2));
  EXPECT_EQ("LinkStatuses.net.talos.dev", dependencies.in(2, 0).text(4));
  EXPECT_EQ(0u, dependencies.in(2, 0).number(2));
  EXPECT_EQ("LinkSpecs.net.talos.dev", dependencies.in(2, 1).text(4));
  EXPECT_EQ(2u, dependencies.in(2, 1).number(2));
}

// Catches: a counter's method that reads another file; zeros for files that the caller may not
// read, and for a machine without frequency governors.
TEST_F(MachineMethodsTest, Counters) {
  auto read = [&](const char* method) {
    TestCall call(kj::str("/machine.MachineService/", method));
    EXPECT_EQ("0 ", run(call));
    return call.message(0).in(1);
  };
  EXPECT_EQ(0.25, doubleOf(read("LoadAvg").number(3)));
  EXPECT_EQ(7u, read("SystemStat").number(7));
  EXPECT_EQ(4u, read("CPUInfo").in(2).number(11));
  EXPECT_EQ(16u, read("NetworkDeviceStats").in(3).number(17));
  EXPECT_EQ(0u, read("CPUFreqStats").fields.size());
  TestCall refused("/machine.MachineService/DiskStats");
  EXPECT_EQ("7 not authorized: Machine.counters needs the role os:reader", run(refused));
}

// Catches: an archive that ends without an error although files are missing in it.
TEST_F(MachineMethodsTest, Copy) {
  TestCall all("/machine.MachineService/Copy",
               request([](WireWriter& out) { out.text(1, "/var"); }));
  EXPECT_EQ("0 ", run(all));
  ASSERT_EQ(1u, all.sent.size());
  EXPECT_EQ("archive", all.message(0).text(2));
  TestCall some("/machine.MachineService/Copy",
                request([](WireWriter& out) { out.text(1, "/proc"); }));
  EXPECT_EQ("0 ", run(some));
  ASSERT_EQ(2u, some.sent.size());
  EXPECT_NE(std::string::npos, some.message(1).in(1).text(2).find("/proc/kmsg"));
}

// Unpacks an archive with gzip.
std::string unpacked(const TestCall& call) {
  std::string packed;
  for (size_t i = 0; i < call.sent.size(); ++i) packed += call.message(i).text(2);
  std::string tar(1 << 20, '\0');
  z_stream z{};
  KJ_ASSERT(inflateInit2(&z, 16 + MAX_WBITS) == Z_OK);
  z.next_in = reinterpret_cast<Bytef*>(packed.data());
  z.avail_in = packed.size();
  z.next_out = reinterpret_cast<Bytef*>(tar.data());
  z.avail_out = tar.size();
  EXPECT_EQ(Z_STREAM_END, inflate(&z, Z_FINISH));
  tar.resize(z.total_out);
  inflateEnd(&z);
  return tar;
}

// Catches: a kubeconfig outside of an archive, or an incomplete one.
TEST_F(MachineMethodsTest, Kubeconfig) {
  TestCall call("/machine.MachineService/Kubeconfig");
  EXPECT_EQ("0 ", run(call));
  auto tar = unpacked(call);
  EXPECT_EQ("kubeconfig", std::string(tar.c_str()));
  EXPECT_EQ("0000600", std::string(tar.c_str() + 100));
  EXPECT_EQ(0u, tar.size() % 512);
  EXPECT_EQ(bed.kubeconfig, tar.substr(512, bed.kubeconfig.size()));
  EXPECT_EQ(std::string(1024, '\0'), tar.substr(tar.size() - 1024)) << "the end of an archive";
}

// Catches: a node in foreign hands whose kubeconfig makes the administrator's next kubectl run a
// program, read a file or use a proxy.
TEST_F(MachineMethodsTest, AKubeconfigWithMoreThanCredentials) {
  auto usual = bed.kubeconfig;
  auto answerWith = [&](const char* before, const char* added) {
    bed.kubeconfig = usual;
    auto at = usual.find(before);
    KJ_ASSERT(at != std::string::npos, before);
    bed.kubeconfig.insert(at, added);
    TestCall call("/machine.MachineService/Kubeconfig");
    call.toNode("node");
    auto status = run(call);
    EXPECT_TRUE(call.sent.empty());
    TestCall several("/machine.MachineService/Kubeconfig");
    several.toNodes({"node"});
    EXPECT_EQ("0 ", run(several));
    EXPECT_EQ(1u, several.sent.size());
    EXPECT_EQ(status, kj::str(several.message(0).in(1).in(3).number(1), ' ',
                              several.message(0).in(1).in(3).text(2).c_str())
                          .cStr());
    return status;
  };
  auto refused = [](const char* key) {
    return std::string("13 node: the kubeconfig from this node is refused: ") + key +
           ": a node must not set this key; a kubeconfig from a node has the server, its CA, a "
           "certificate with its key, and names";
  };
  EXPECT_EQ(refused("users[0].user.exec"),
            answerWith("client-certificate-data", "exec: {command: /bin/sh}\n    "));
  EXPECT_EQ(refused("users[0].user.tokenFile"),
            answerWith("client-key-data", "tokenFile: /etc/shadow\n    "));
  EXPECT_EQ(refused("clusters[0].cluster.proxy-url"),
            answerWith("server:", "proxy-url: http://192.0.2.1\n    "));
  bed.kubeconfig = usual + "# " + std::string(1 << 20, 'x');
  TestCall large("/machine.MachineService/Kubeconfig");
  EXPECT_EQ("8 this node: the kubeconfig has " + std::to_string(bed.kubeconfig.size()) +
                " bytes; at most 131072 are read",
            run(large));
}

}  // namespace
}  // namespace talos::grpcapi
