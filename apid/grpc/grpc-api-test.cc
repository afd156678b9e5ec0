#include "apid/grpc/grpc-api.h"

#include <set>

#include "apid/grpc/answer-output.h"
#include "apid/grpc/test-node-model.h"

namespace talos::grpcapi {
namespace {

using namespace testing;

// Catches: a row whose names are not in rpc/ (the constructor of GrpcApi fails), and a duplicate.
TEST_F(CallTest, EveryRowIsResolved) {
  std::set<std::string> paths;
  for (auto& entry : api.entries()) {
    EXPECT_TRUE(paths.insert(entry.path.cStr()).second) << entry.path.cStr();
  }
  EXPECT_GT(paths.size(), 40u);
}

// Catches: an answer of this machine that names a node, or is not merged.
TEST_F(CallTest, AnswerOfThisMachineNamesNoNode) {
  TestCall call("/machine.MachineService/Version");
  EXPECT_EQ("0 ", run(call));
  ASSERT_EQ(1u, call.sent.size());
  auto one = call.message(0).in(1);
  EXPECT_FALSE(one.has(1)) << "metadata";
  EXPECT_EQ("v1.9.6", one.in(2).text(1)) << "clients warn of an older one";
  EXPECT_EQ("v1.0.0", one.in(2).text(2));
  EXPECT_EQ("linux", one.in(2).text(5));
  EXPECT_EQ("metal", one.in(3).text(2));
  EXPECT_EQ(1u, one.in(4).number(1));
  EXPECT_EQ(std::vector<std::string>{""}, cluster->asked);
}

// Catches: an answer without its node's name, or with another's; a node that is down and fails the
// whole call, or whose error the client cannot print.
TEST_F(CallTest, SeveralNodesOneDown) {
  TestCall call("/machine.MachineService/Version");
  call.toNodes({"10.0.0.2", "10.0.0.9", ""});
  EXPECT_EQ("3 the metadata names an empty node", run(call));
  TestCall again("/machine.MachineService/Version");
  again.toNodes({"10.0.0.2", "10.0.0.9"});
  EXPECT_EQ("0 ", run(again));
  auto reply = again.message(0);
  ASSERT_EQ(2u, reply.count(1));
  EXPECT_EQ("10.0.0.2", reply.in(1, 0).in(1).text(1));
  EXPECT_FALSE(reply.in(1, 0).in(1).has(2)) << "an error";
  EXPECT_EQ("v2.0.0", reply.in(1, 0).in(2).text(2));
  auto down = reply.in(1, 1);
  EXPECT_EQ("10.0.0.9", down.in(1).text(1));
  EXPECT_EQ("rpc error: code = Unavailable desc = cannot connect to 10.0.0.9:50000",
            down.in(1).text(2));
  EXPECT_EQ(14u, down.in(1).in(3).number(1));
  EXPECT_EQ("cannot connect to 10.0.0.9:50000", down.in(1).in(3).text(2));
  EXPECT_FALSE(down.has(2));
}

// Catches: a silent node that discards the answers of the others.
TEST_F(CallTest, SeveralNodesOneSilent) {
  cluster->nodes.emplace("10.0.0.8", kj::Promise<rpc::Node::Client>(kj::NEVER_DONE));
  TestCall call("/machine.MachineService/Version");
  call.toNodes({"10.0.0.8", "10.0.0.2"});
  auto answer = handler->call(call);
  EXPECT_FALSE(answer.poll(scope));
  for (auto& near : call.deadlines) near->fulfill();
  ASSERT_TRUE(answer.poll(scope));
  EXPECT_EQ(0u, answer.wait(scope).code);
  auto reply = call.message(0);
  ASSERT_EQ(2u, reply.count(1));
  EXPECT_EQ("10.0.0.8", reply.in(1, 0).in(1).text(1));
  EXPECT_EQ(4u, reply.in(1, 0).in(1).in(3).number(1));
  EXPECT_EQ("no answer within the time of the call", reply.in(1, 0).in(1).in(3).text(2));
  EXPECT_EQ("v2.0.0", reply.in(1, 1).in(2).text(2));
}

// Catches: one small request that makes this node call others without end.
TEST_F(CallTest, NotMoreNodesThanAClusterHas) {
  TestCall call("/machine.MachineService/Version");
  for (size_t i = 0; i < kMostNodes; ++i) call.toNodes({kj::str("n", i).cStr()});
  EXPECT_EQ("0 ", run(call));
  EXPECT_EQ(kMostNodes, call.message(0).count(1));
  TestCall more("/machine.MachineService/Version");
  for (size_t i = 0; i <= kMostNodes; ++i) more.toNodes({kj::str("n", i).cStr()});
  cluster->asked.clear();
  EXPECT_EQ("3 a call names at most 256 nodes, not 257", run(more));
  EXPECT_TRUE(cluster->asked.empty());
}

// Catches: a node that is called as often as its name is repeated.
TEST_F(CallTest, ANameOnce) {
  TestCall call("/machine.MachineService/Version");
  for (size_t i = 0; i <= kMostNodes; ++i) call.toNodes({"10.0.0.2", "10.0.0.9"});
  EXPECT_EQ("0 ", run(call));
  EXPECT_EQ((std::vector<std::string>{"10.0.0.2", "10.0.0.9"}), cluster->asked);
  ASSERT_EQ(2u, call.message(0).count(1));
  EXPECT_EQ("10.0.0.9", call.message(0).in(1, 1).in(1).text(1));
}

// Catches: answers of nodes that are kept, and not charged, while another node is silent.
TEST_F(CallTest, AnswersThatWaitForOtherNodesAreCharged) {
  cluster->nodes.emplace("10.0.0.8", kj::Promise<rpc::Node::Client>(kj::NEVER_DONE));
  other.filler = 250u << 10;
  Budget budget({1u << 20, 1u << 30});
  auto account = budget.account("someone");
  handler = api.open(timer, client, kj::addRef(*account));
  std::vector<kj::Own<TestCall>> calls;
  std::vector<kj::Promise<void>> pending;
  for (unsigned i = 0; i < 5; ++i) {
    calls.push_back(kj::heap<TestCall>("/machine.MachineService/Hostname"));
    calls.back()->toNodes({"10.0.0.8", "10.0.0.2"});
    pending.push_back(handler->call(*calls.back()).ignoreResult().eagerlyEvaluate(nullptr));
  }
  scope.poll();
  for (auto& call : calls) {
    for (auto& near : call->deadlines) near->fulfill();
  }
  unsigned whole = 0, refused = 0;
  for (unsigned i = 0; i < 5; ++i) {
    ASSERT_TRUE(pending[i].poll(scope));
    auto part = calls[i]->message(0).in(1, 1);
    whole += part.has(2);
    refused += part.in(1).in(3).number(1) == 8;
  }
  EXPECT_EQ(3u, whole);
  EXPECT_EQ(2u, refused);
  pending.clear();
  EXPECT_TRUE(kj::runCatchingExceptions([&]() { account->hold(1u << 20); }) == nullptr);
  handler = nullptr;
}

// Catches: an answer that is kept and not charged any more, because the next one was too large.
TEST_F(CallTest, WhatIsKeptStaysChargedWhenMoreIsRefused) {
  Budget budget({1u << 20, 1u << 30});
  auto account = budget.account("someone");
  AnswerCharge charge(*account);
  charge.set(600u << 10);
  EXPECT_TRUE(kj::runCatchingExceptions([&]() { charge.set(1200u << 10); }) != nullptr);
  auto fits = [&](size_t bytes) {
    return kj::runCatchingExceptions([&]() { account->hold(bytes); }) == nullptr;
  };
  EXPECT_FALSE(fits(500u << 10));
  EXPECT_TRUE(fits(400u << 10));
  charge.set(100u << 10);
  EXPECT_TRUE(fits(900u << 10));
}

// Catches: a request that is copied for each node and charged once; nodes that are charged although
// they have answered.
TEST_F(CallTest, EachNodeIsPaidFor) {
  constexpr size_t kLeast = 16u << 10;
  Budget budget({1u << 20, 1u << 30});
  auto account = budget.account("someone");
  handler = api.open(timer, client, kj::addRef(*account));
  auto exhausted = [&](TestCall& call) {
    unsigned count = 0;
    for (size_t i = 0; i < call.message(0).count(1); ++i) {
      count += call.message(0).in(1, i).in(1).in(3).number(1) == 8;
    }
    return count;
  };
  auto asked = [&](size_t size) {
    return request([&](WireWriter& out) { out.text(1, kj::str(kj::repeat('x', size))); });
  };
  constexpr auto path = "/machine.MachineService/ServiceStart"_kj;
  TestCall small(path, asked(1)), large(path, asked(300u << 10));
  for (auto call : {&small, &large}) {
    for (size_t i = 0; i < 70; ++i) call->toNodes({kj::str("n", i).cStr()});
    EXPECT_EQ("0 ", run(*call));
  }
  EXPECT_EQ(70 - (1u << 20) / kLeast, exhausted(small));
  EXPECT_EQ(70u - 3, exhausted(large));
  TestCall again(path, asked(1));
  again.toNodes({"10.0.0.2"});
  EXPECT_EQ("0 ", run(again));
  EXPECT_EQ(0u, exhausted(again));
  handler = nullptr;
}

// Catches: a merged answer for `node`; an error of the one node that is sent as an answer.
TEST_F(CallTest, AnswerOfOneNodeIsNotMerged) {
  TestCall call("/machine.MachineService/Version");
  call.toNode("10.0.0.2");
  EXPECT_EQ("0 ", run(call));
  EXPECT_FALSE(call.message(0).in(1).has(1));
  EXPECT_EQ("v2.0.0", call.message(0).in(1).in(2).text(2));
  TestCall down("/machine.MachineService/Version");
  down.toNode("10.0.0.9");
  EXPECT_EQ("14 cannot connect to 10.0.0.9:50000", run(down));
  EXPECT_TRUE(down.sent.empty());
  TestCall both("/machine.MachineService/Version");
  both.header("node", {"10.0.0.2", "10.0.0.9"});
  EXPECT_EQ("3 the metadata \"node\" names one node; use \"nodes\"", run(both));
}

// Catches: calls of a gRPC client that cannot be found by the id that the client or its proxy gave;
// an invalid id that fails the call.
TEST_F(CallTest, TheClientNamesTheRequest) {
  auto ask = [&](std::initializer_list<const char*> ids) {
    TestCall call("/machine.MachineService/Version");
    call.toNodes({"10.0.0.2", "10.0.0.3"});
    call.header("x-request-id", ids);
    cluster->requests.clear();
    EXPECT_EQ("0 ", run(call));
    return cluster->requests;
  };
  using Ids = std::vector<std::string>;
  EXPECT_EQ(ask({"0b0e2a6c-6a3f-4b7e"}), (Ids{"0b0e2a6c-6a3f-4b7e", "0b0e2a6c-6a3f-4b7e"}));
  EXPECT_EQ(ask({"a b"}), (Ids{"", ""}));
  EXPECT_EQ(ask({"one", "two"}), (Ids{"", ""}));
  EXPECT_EQ(ask({}), (Ids{"", ""}));
}

// Catches: missing messages that a client dereferences: the client then crashes.
TEST_F(CallTest, ServicesHaveEventsAndHealth) {
  TestCall call("/machine.MachineService/ServiceList");
  EXPECT_EQ("0 ", run(call));
  auto list = call.message(0).in(1);
  ASSERT_EQ(2u, list.count(2));
  auto apid = list.in(2, 0), kubelet = list.in(2, 1);
  EXPECT_EQ("Running", apid.text(2));
  EXPECT_EQ("Preparing", apid.in(3).in(1).text(2));
  EXPECT_EQ("Starting", apid.in(3).in(1).text(1));
  EXPECT_EQ(1u, apid.in(3).in(1).in(3).number(1));
  EXPECT_EQ(1u, apid.in(4).number(2));
  EXPECT_TRUE(kubelet.has(3)) << "events";
  EXPECT_TRUE(kubelet.has(4)) << "health";
  EXPECT_EQ("Initialized", kubelet.text(2));
}

// Catches: an error that is lost or has another code; a changed text that scripts match.
TEST_F(CallTest, ErrorsKeepTheirCodesAndTexts) {
  TestCall start("/machine.MachineService/ServiceStart",
                 request([](WireWriter& out) { out.text(1, "nope"); }));
  EXPECT_EQ("5 service \"nope\" is not registered", run(start));
  TestCall reboot("/machine.MachineService/Reboot");
  EXPECT_EQ("7 not authorized: Machine.reboot needs the role os:operator", run(reboot));
  TestCall log("/machine.MachineService/Logs", request([](WireWriter& out) {
                 out.text(1, "system");
                 out.text(2, "nope");
               }));
  EXPECT_EQ("5 log \"nope\" was not registered", run(log));
  TestCall unknown("/machine.MachineService/MakeCoffee");
  EXPECT_EQ("12 this node has no method /machine.MachineService/MakeCoffee", run(unknown));
  TestCall empty("/machine.MachineService/Version");
  empty.requests.clear();
  EXPECT_EQ("3 the call has no request", run(empty));
  TestCall bad("/machine.MachineService/ServiceStart", "\x0a\x05"_kj.asBytes());
  EXPECT_EQ("3 not a protobuf message: it ends inside a field", run(bad));
  TestCall old("/machine.MachineService/Upgrade",
               request([](WireWriter& out) { out.varint(3, 1); }));
  EXPECT_EQ("0 ", run(old));
}

// Catches: a number that a client reads as a text, or not at all.
TEST_F(CallTest, ScopesAreNumbers) {
  TestCall call("/network.NetworkService/Routes");
  EXPECT_EQ("0 ", run(call));
  EXPECT_EQ(253u, call.message(0).in(1).in(2, 0).number(5));
  EXPECT_FALSE(call.message(0).in(1).in(2, 1).has(5)) << "the universe is 0";
}

// Catches: a token that is written into the audit log; a role error for a registry's wrong
// credentials.
TEST_F(CallTest, Upgrade) {
  auto ask = [&](kj::StringPtr image) {
    TestCall call("/machine.MachineService/Upgrade",
                  request([&](WireWriter& out) { out.text(1, image); }));
    return run(call);
  };
  EXPECT_EQ("0 ", ask("https://h/x.tar?token=SECRET#sha256=12"));
  EXPECT_EQ("https://h/x.tar#sha256=12", local.image);
  EXPECT_EQ("token=SECRET", local.query);
  EXPECT_EQ("0 ", ask("registry.example/installer:v1"));
  EXPECT_EQ("registry.example/installer:v1", local.image);
  EXPECT_EQ("", local.query);
  EXPECT_EQ("7 the registry wants credentials", ask("private"));
}

// Catches: an option that is neither supported nor refused; a supported option that is refused,
// which would break clients that set it in each call.
TEST_F(CallTest, UnsupportedOptionsAreRefused) {
  auto ask = [&](kj::StringPtr path, uint32_t field, uint64_t value) {
    TestCall call(kj::str("/machine.MachineService/", path),
                  request([&](WireWriter& out) { out.varint(field, value); }));
    return run(call);
  };
  auto reboots = "7 not authorized: Machine.reboot needs the role os:operator";
  EXPECT_EQ(reboots, ask("Reboot", 1, 0));
  EXPECT_EQ(reboots, ask("Reboot", 1, 1)) << "through the firmware";
  EXPECT_EQ("12 this node stops all services before it reboots; leave out --mode force",
            ask("Reboot", 1, 2));
  EXPECT_EQ("0 ", ask("Shutdown", 1, 1)) << "no shutdown drains";
  EXPECT_EQ("0 ", ask("Upgrade", 5, 1));
  EXPECT_EQ("12 this node stops all services before it reboots; leave out --reboot-mode",
            ask("Upgrade", 5, 2));
  EXPECT_EQ("0 ", ask("ImagePull", 1, 2));
  EXPECT_EQ("12 only images of pods can be pulled; use --namespace cri", ask("ImagePull", 1, 1));
}

// Catches: images of one namespace under the other's name; the kubelet's under only one of its
// names; a node without a kubelet that fails.
TEST_F(CallTest, ImagesByNamespace) {
  auto ask = [&](uint64_t space) {
    TestCall call("/machine.MachineService/ImageList",
                  request([&](WireWriter& out) { out.varint(1, space); }));
    auto status = run(call);
    for (size_t i = 0; i < call.sent.size(); ++i) status += "\n" + call.message(i).text(2);
    return status;
  };
  auto kubelet = "\nregistry.example/kubelet:v1\nregistry.example/kubelet@sha256:1";
  EXPECT_EQ(std::string("0 ") + kubelet + "\nregistry.example/pause:3", ask(2));
  EXPECT_EQ("0 ", ask(1));
  local.kubelet = "registry.example/kubelet:v1";
  EXPECT_EQ(std::string("0 ") + kubelet, ask(1));
  local.kubelet = "registry.example/kubelet:v2";
  EXPECT_EQ("0 ", ask(1)) << "one that has not been pulled";
  EXPECT_EQ("0 ", ask(3)) << "inmem";
  EXPECT_EQ("3 invalid namespace; use --namespace system, cri or inmem", ask(0));
  EXPECT_EQ("3 invalid namespace; use --namespace system, cri or inmem", ask(4));
}

// Catches: a log that ignores the request's options; a stream whose items do not name their node.
TEST_F(CallTest, LogsOfNodes) {
  auto asked = request([](WireWriter& out) {
    out.text(1, "system");
    out.text(2, "apid");
    out.varint(5, signExtended(-1));
  });
  TestCall call("/machine.MachineService/Logs", asked);
  EXPECT_EQ("0 ", run(call));
  EXPECT_TRUE(call.begun);
  ASSERT_EQ(2u, call.sent.size());
  EXPECT_FALSE(call.message(0).has(1));
  EXPECT_EQ("one\ntwo\n", call.message(0).text(2));
  EXPECT_EQ(-1, local.tail);
  TestCall both("/machine.MachineService/Logs", asked);
  both.toNodes({"10.0.0.9", "10.0.0.2"});
  EXPECT_EQ("0 ", run(both));
  ASSERT_EQ(3u, both.sent.size());
  unsigned problems = 0;
  for (size_t i = 0; i < 3; ++i) {
    auto metadata = both.message(i).in(1);
    if (metadata.has(2)) {
      ++problems;
      EXPECT_EQ("10.0.0.9", metadata.text(1));
    } else {
      EXPECT_EQ("10.0.0.2", metadata.text(1));
      EXPECT_TRUE(both.message(i).has(2));
    }
  }
  EXPECT_EQ(1u, problems);
}

// Catches: the kubelet's log, requested with the namespace of Kubernetes, in which it is not a
// container.
TEST_F(CallTest, LogOfTheKubelet) {
  auto ask = [&](const char* id) {
    TestCall call("/machine.MachineService/Logs", request([&](WireWriter& out) {
                    out.text(1, "k8s.io");
                    out.text(2, id);
                  }));
    auto status = run(call);
    return status + call.message(0).text(2);
  };
  EXPECT_EQ("0 one\ntwo\n", ask("kubelet"));
  EXPECT_EQ("12", ask("kube-system/x").substr(0, 2)) << "a container, of which the model has none";
}

// Catches: a call that continues when its client has gone; a sink that is used after the call.
TEST_F(CallTest, FollowEndsWhenItsClientCancels) {
  TestCall call("/machine.MachineService/Logs", request([](WireWriter& out) {
                  out.text(2, "apid");
                  out.varint(4, 1);
                }));
  {
    auto promise = handler->call(call);
    ASSERT_FALSE(promise.poll(scope));
    EXPECT_EQ(2u, call.sent.size());
    EXPECT_TRUE(local.follow);
  }
  scope.poll();
  EXPECT_TRUE(local.ended);
  auto request = local.sinks[0].writeRequest();
  request.setBytes("late\n"_kj.asBytes());
  auto late = request.send();
  (void)late;
  scope.poll();
  EXPECT_EQ(2u, call.sent.size());
}

// Catches: the end of a file that a slow client never gets, although the status reports success.
TEST_F(CallTest, SlowClientGetsAll) {
  for (auto path : {"/machine.MachineService/Read", "/machine.MachineService/Copy"}) {
    TestCall call(path, request([](WireWriter& out) { out.text(1, "/a"); }));
    call.slow = true;
    auto promise = handler->call(call);
    size_t count = 0;
    while (!promise.poll(scope)) {
      ASSERT_FALSE(call.taken.empty()) << "it waits for nobody";
      call.taken.front()->fulfill();
      call.taken.pop_front();
      ++count;
    }
    EXPECT_EQ(0u, promise.wait(scope).code);
    std::string got;
    for (size_t i = 0; i < call.sent.size(); ++i) got += call.message(i).text(2);
    EXPECT_EQ(count == 3 ? "abc" : "archive", got);
    local.burst.clear();
  }
}

// Catches: writes that wait for a client that has gone and that continue in an ended call, because
// the node still holds the sink.
TEST_F(CallTest, NothingWaitsBehindTheCall) {
  TestCall call("/machine.MachineService/Dmesg",
                request([](WireWriter& out) { out.varint(1, 1); }));
  call.stuck = true;
  {
    auto promise = handler->call(call);
    EXPECT_FALSE(promise.poll(scope));
    EXPECT_EQ(1u, call.waiting);
  }
  EXPECT_EQ(0u, call.waiting);
  local.held = nullptr;
}

// Catches: a client that reads nothing and is sent everything.
TEST_F(CallTest, SlowClientStopsTheStream) {
  TestCall call("/machine.MachineService/Dmesg");
  call.stuck = true;
  EXPECT_EQ("pending", run(call));
  EXPECT_EQ(1u, call.sent.size());
  TestCall list("/machine.MachineService/List",
                request([](WireWriter& out) { out.bytes(4, "\x01\x02"_kj.asBytes()); }));
  list.stuck = true;
  EXPECT_EQ("pending", run(list));
  EXPECT_EQ(1u, list.sent.size());
}

// Catches: lines that the client could not prefix with the node; a lost error after them.
TEST_F(CallTest, KernelLogByLines) {
  TestCall call("/machine.MachineService/Dmesg");
  call.toNodes({"10.0.0.2"});
  EXPECT_EQ("0 ", run(call));
  ASSERT_EQ(4u, call.sent.size());
  EXPECT_EQ("kern: info: a\n", call.message(0).text(2));
  EXPECT_EQ("kern: info: b\n", call.message(1).text(2));
  EXPECT_EQ("kern:", call.message(2).text(2));
  EXPECT_EQ("rpc error: code = Internal desc = the kernel log broke",
            call.message(3).in(1).text(2));
}

// Catches: parameters that are not passed on; modes in the kernel's form.
TEST_F(CallTest, FileCallsPassTheirParameters) {
  TestCall call("/machine.MachineService/List", request([](WireWriter& out) {
                  out.text(1, "/var");
                  out.varint(2, 1);
                  out.varint(3, signExtended(-1));
                  out.bytes(4, "\x00\x01"_kj.asBytes().slice(0, 2));
                }));
  EXPECT_EQ("0 ", run(call));
  ASSERT_EQ(2u, call.sent.size());
  EXPECT_EQ("/var", call.message(0).text(2));
  EXPECT_EQ(1u << 31 | 0755, call.message(0).number(4));
  EXPECT_EQ(1u, call.message(0).number(6)) << "a directory";
  EXPECT_EQ(0600u, call.message(1).number(4));
  EXPECT_EQ(17u, call.message(1).number(3));
}

// Catches: a merged answer that exceeds the clients' limit.
TEST_F(CallTest, TooMuchForOneMessage) {
  TestCall call("/machine.MachineService/Mounts");
  cluster->nodes.insert({"10.0.0.3", kj::heap<ModelNode>("v2.0.0", other)});
  call.toNodes({"10.0.0.2", "10.0.0.3"});
  EXPECT_EQ("0 ", run(call));
  auto reply = call.message(0);
  ASSERT_EQ(2u, reply.count(1));
  EXPECT_LE(call.sent[0].size(), kMostMerged);
  EXPECT_TRUE(reply.in(1, 0).has(2));
  EXPECT_EQ(8u, reply.in(1, 1).in(1).in(3).number(1)) << "ResourceExhausted";
}

// Catches: kept errors of many nodes that cost their client nothing; an error that is lost because
// its client's account is exhausted.
TEST_F(CallTest, ErrorsAreChargedToo) {
  Budget budget({.perClient = 1u << 20, .inTotal = 1u << 30});
  auto account = budget.account("someone");
  auto free = [&](size_t bytes) {
    return kj::runCatchingExceptions([&]() { account->hold(bytes); }) == nullptr;
  };
  kj::Vector<kj::StringPtr> names;
  for (unsigned i = 0; i < 200; ++i) names.add("10.0.0.2");
  MergedAnswer merged(names, *account);
  auto text = kj::str(kj::repeat('x', 8000));
  for (unsigned i = 0; i < 25; ++i) merged.addProblem(i, names[i], {14, kj::str(text)});
  EXPECT_FALSE(free((1u << 20) - 380'000));
  auto full = kj::heap(account->hold(600'000));
  for (unsigned i = 25; i < 200; ++i) merged.addProblem(i, names[i], {14, kj::str(text)});
  EXPECT_FALSE(free(20'000));
  EXPECT_EQ(200u, Message(merged.finish()).count(1));
  full = nullptr;
  EXPECT_TRUE(free(1u << 20));
}

// Catches: an answer that fits without the bytes around its parts and not with them; a node that
// has no room for its error, so that the whole call fails.
TEST_F(CallTest, NodesThatFailHaveRoom) {
  Record late;
  late.failsLate = true;
  for (auto name : {"10.0.0.8", "10.0.0.9"}) {
    cluster->nodes.insert({name, kj::heap<ModelNode>("v2.0.0", late)});
  }
  size_t taken = 0;
  auto ask = [&](uint32_t size) {
    other.filler = size;
    TestCall call("/machine.MachineService/Hostname");
    call.toNodes({"10.0.0.2", "10.0.0.9", "10.0.0.8"});
    EXPECT_EQ("0 ", run(call)) << size;
    ASSERT_EQ(1u, call.sent.size());
    EXPECT_LE(call.sent[0].size(), kMostMerged) << size;
    EXPECT_EQ(3u, call.message(0).count(1)) << size;
    for (size_t i = 1; i < 3; ++i) {
      EXPECT_EQ(14u, call.message(0).in(1, i).in(1).in(3).number(1)) << size;
    }
    taken += call.message(0).in(1, 0).has(2);
  };
  for (uint32_t less : {0, 10, 20, 25, 30, 100, 300, 500, 1000, 5000}) ask(kMostMerged - less);
  EXPECT_EQ(1u, taken) << "with 5000 bytes less";
}

// Catches: `restart` of a service that goes to containerd; a service that does not run.
TEST_F(CallTest, RestartOfAService) {
  TestCall call("/machine.MachineService/Restart", request([](WireWriter& out) {
                  out.text(1, "system");
                  out.text(2, "apid");
                }));
  EXPECT_EQ("0 ", run(call));
  EXPECT_EQ(15, local.killed);
  TestCall stopped("/machine.MachineService/Restart",
                   request([](WireWriter& out) { out.text(2, "etcd"); }));
  EXPECT_EQ("9 etcd does not run", run(stopped));
}

}  // namespace
}  // namespace talos::grpcapi
