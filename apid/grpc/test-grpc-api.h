// A client of the gRPC API without HTTP/2 for tests, and a cluster of models in the same loop.
#pragma once

#include <gtest/gtest.h>
#include <kj/encoding.h>
#include <kj/timer.h>

#include <deque>
#include <map>
#include <string>
#include <vector>

#include "apid/grpc/grpc-api.h"
#include "common/grpc-messages/test-messages.h"

namespace talos::grpcapi::testing {

class TestCall final : public grpc::GrpcCall {
 public:
  TestCall(kj::StringPtr path, Bytes request = nullptr) : to(kj::str(path)) {
    requests.push_back(kj::heapArray(request));
  }
  kj::StringPtr path() const override { return to; }
  kj::ArrayPtr<const kj::String> metadata(kj::StringPtr name) const override {
    auto found = headers.find(name.cStr());
    if (found == headers.end()) return nullptr;
    return found->second;
  }
  kj::Promise<void> nearDeadline() override {
    auto paf = kj::newPromiseAndFulfiller<void>();
    deadlines.push_back(kj::mv(paf.fulfiller));
    return kj::mv(paf.promise);
  }
  kj::Promise<kj::Maybe<kj::Array<kj::byte>>> receive() override {
    if (requests.empty()) return kj::Maybe<kj::Array<kj::byte>>(nullptr);
    auto first = kj::mv(requests.front());
    requests.pop_front();
    return kj::Maybe<kj::Array<kj::byte>>(kj::mv(first));
  }
  void begin() override { begun = true; }
  kj::Promise<void> send(kj::Array<kj::byte> message) override {
    sent.push_back(std::string(message.asChars().begin(), message.size()));
    if (slow) {
      auto paf = kj::newPromiseAndFulfiller<void>();
      taken.push_back(kj::mv(paf.fulfiller));
      return kj::mv(paf.promise);
    }
    if (!stuck) return kj::READY_NOW;
    ++waiting;
    return kj::Promise<void>(kj::NEVER_DONE).attach(kj::defer([this]() { --waiting; }));
  }
  void toNodes(std::initializer_list<const char*> names) { header("nodes", names); }
  void toNode(const char* name) { header("node", {name}); }
  void header(const char* name, std::initializer_list<const char*> values) {
    for (auto value : values) headers[name].add(kj::str(value));
  }
  Message message(size_t index) const {
    return index < sent.size() ? Message(sent[index]) : Message();
  }

  std::deque<kj::Array<kj::byte>> requests;
  std::vector<std::string> sent;
  bool begun = false;
  bool stuck = false;  // a client that reads nothing
  bool slow = false;   // a client that takes a message when the test says so
  std::deque<kj::Own<kj::PromiseFulfiller<void>>> taken;
  std::vector<kj::Own<kj::PromiseFulfiller<void>>>
      deadlines;         // Calls near their deadline, when the test says so.
  unsigned waiting = 0;  // promises of send(), which must not outlive the call

 private:
  kj::String to;
  std::map<std::string, kj::Vector<kj::String>> headers;
};

// A cluster of nodes by name; unknown nodes are unreachable.
class ModelCluster final : public rpc::Cluster::Server {
 public:
  std::map<std::string, rpc::Node::Client> nodes;
  std::vector<std::string> asked, requests;

 protected:
  kj::Promise<void> node(NodeContext context) override {
    std::string name = context.getParams().getAddress().cStr();
    asked.push_back(name);
    requests.push_back(context.getParams().getRequest().cStr());
    auto found = nodes.find(name);
    if (found == nodes.end()) {
      fail(ErrorKind::kUnavailable, kj::str("cannot connect to ", name.c_str(), ":50000"));
    }
    context.getResults().setNode(found->second);
    return kj::READY_NOW;
  }
};

struct GrpcApiTest : ::testing::Test {
  ~GrpcApiTest() noexcept override {}
  kj::EventLoop loop;
  kj::WaitScope scope{loop};
  GrpcApi api;
  ModelCluster* cluster;
  rpc::Cluster::Client client = make();
  kj::TimerImpl timer{kj::origin<kj::TimePoint>()};
  kj::Own<grpc::GrpcHandler> handler = api.open(timer, client);

  rpc::Cluster::Client make() {
    auto model = kj::heap<ModelCluster>();
    cluster = model;
    return kj::mv(model);
  }
  // Runs the call; returns its status as "5 text"; "0 " on success.
  std::string run(TestCall& call) {
    auto promise = kj::evalNow([&]() { return handler->call(call); });
    auto status = promise.then([](grpc::GrpcStatus&& s) { return kj::mv(s); },
                               [](kj::Exception&& e) { return grpc::statusOf(e); });
    if (!status.poll(scope)) return "pending";
    auto s = status.wait(scope);
    return kj::str(s.code, " ", s.message).cStr();
  }
};

}  // namespace talos::grpcapi::testing
