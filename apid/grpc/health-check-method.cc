// Whether the cluster works, as this node sees it: the checks of `talosctl health`, with the calls
// that the client itself may make.
#include <deque>

#include "apid/grpc/all-methods.h"
#include "apid/grpc/field-transforms.h"
#include "apid/grpc/request-fields.h"
#include "common/base/signal.h"
#include "common/base/within.h"
#include "common/health/run-health.h"

namespace talos::edge {
namespace {

constexpr size_t kMostNamed = 256;   // in each list
constexpr size_t kMostLines = 1000;  // that a client has not taken
constexpr auto kPatience = 20 * kj::MINUTES, kLongest = 24 * kj::HOURS;

// Nodes by the client's own cluster, Kubernetes by the node that was asked. Each node that is asked
// counts against the client's account as one of a call to several does; one that does not fit any
// more is silent for that reason.
class ClusterObserver final : public HealthObserver {
 public:
  ClusterObserver(Surroundings around, rpc::Node::Client node)
      : around(around), node(kj::mv(node)) {}

  kj::Promise<kj::Array<NodeFacts>> nodes(kj::ArrayPtr<const kj::String> names,
                                          kj::Duration deadline) override {
    auto asked = KJ_MAP(name, names)->kj::Promise<NodeFacts> {
      kj::Maybe<Budget::Account::Hold> hold;
      KJ_IF_MAYBE (account, around.account) {
        try {
          hold = account->hold(0);
        } catch (const kj::Exception& e) {
          return silentFacts(name, messageOf(e));
        }
      }
      auto request = around.cluster.nodeRequest();
      request.setAddress(name);
      return factsOf(around.timer, request.send().getNode(), kj::str(name), deadline,
                     kj::str("no answer within ", deadline / kj::SECONDS, " s"))
          .attach(kj::mv(hold));
    };
    return kj::joinPromises(kj::mv(asked));
  }
  kj::Promise<Survey> survey(kj::Duration deadline) override {
    using Answer = capnp::Response<rpc::Kubernetes::SurveyResults>;
    auto asked = node.kubernetesRequest().send().getKubernetes().surveyRequest().send();
    auto answer = kj::heap(
        co_await within(around.timer, deadline, kj::Promise<Answer>(kj::mv(asked)),
                        kj::str("Kubernetes: no answer within ", deadline / kj::SECONDS, " s")));
    auto survey = answer->getSurvey();
    co_return Survey{survey, kj::mv(answer)};
  }

 private:
  Surroundings around;
  rpc::Node::Client node;
};

// A message for each change, as fast as the client takes them.
class Lines final : public HealthReport {
 public:
  explicit Lines(Output& output) : output(output) {}

  void discovered(const ClusterNodes& nodes) override { add(discoveredLine(nodes)); }
  void begin(kj::StringPtr name) override {
    check = kj::str(name);
    state(CheckResult::waiting(kj::String()));
  }
  void state(const CheckResult& result) override {
    auto line = kj::str("waiting for ", check, ": ", wordOf(result));
    if (line != last) add(kj::str(line));
    last = kj::mv(line);
  }
  void end() override {}

  // Nothing more comes.
  void close() {
    closed = true;
    added.raise();
  }
  // Until the client has taken the last one.
  kj::Promise<void> tell() {
    for (;;) {
      while (!lines.empty()) {
        WireWriter out;
        out.text(2, lines.front());
        lines.pop_front();
        co_await output.send(out.finish());
      }
      if (closed) co_return;
      co_await added.wait();
    }
  }

 private:
  Output& output;
  kj::String check, last;
  std::deque<kj::String> lines;
  bool closed = false;
  Signal added;

  void add(kj::String line) {
    if (lines.size() >= kMostLines) {
      fail(ErrorKind::kResourceExhausted, "the client does not read how far the checks are");
    }
    lines.push_back(kj::mv(line));
    added.raise();
  }
};

struct HealthAsked {
  kj::Duration patience = kPatience;
  ClusterNodes nodes;  // none: those that Kubernetes knows

  explicit HealthAsked(const RequestFields& request) {
    if (request.has(1)) {
      patience = kj::max(nanosecondsOf(request.bytes(1)), int64_t(0)) * kj::NANOSECONDS;
      patience = kj::min(patience, kLongest);
    }
    auto cluster = request.in(2);
    add(cluster, 1, nodes.controlPlane);
    add(cluster, 2, nodes.workers);
    if (cluster.bytes(3).size() > 0) {
      fail(ErrorKind::kUnimplemented,
           "the node asks its own API server of Kubernetes; leave out --k8s-endpoint, or use "
           "--server=false");
    }
    if (nodes.controlPlane.empty() && !nodes.workers.empty()) {
      fail(ErrorKind::kInvalidArgument,
           "the list of workers needs one of control-plane nodes; without both, Kubernetes is "
           "asked");
    }
  }

 private:
  static void add(const RequestFields& cluster, uint32_t field, kj::Vector<kj::String>& list) {
    cluster.each(field, kMostNamed, [&](const WireField& one) { list.add(textOf(one)); });
  }
};

class HealthCheckMethod final : public WideMethod {
 public:
  kj::Promise<void> ask(rpc::Node::Client node, Surroundings around, Input& input,
                        Output& output) const override {
    auto message = co_await input.next();
    HealthAsked asked{RequestFields(message.map([](auto& m) { return Bytes(m); }).orDefault({}))};
    // One that cannot be reached, or asked, is told at once: to a check it is one that is not well.
    co_await node.machineRequest().send().getMachine().statusRequest().send().ignoreResult();
    ClusterObserver observer(around, kj::mv(node));
    Lines lines(output);
    HealthRun run(around.timer, observer, lines, asked.patience);
    kj::Maybe<kj::Exception> problem;
    auto checking = kj::heapArrayBuilder<kj::Promise<void>>(2);
    checking.add(check(run, asked.nodes, problem).then([&] { lines.close(); }));
    checking.add(lines.tell());
    co_await kj::joinPromisesFailFast(checking.finish());
    KJ_IF_MAYBE (p, problem) kj::throwFatalException(kj::mv(*p));
  }

 private:
  static kj::Promise<void> check(HealthRun& run, ClusterNodes& nodes,
                                 kj::Maybe<kj::Exception>& problem) {
    try {
      if (nodes.controlPlane.empty()) nodes = co_await run.discover();
      co_await run.check(nodes);
    } catch (...) {
      problem = kj::getCaughtExceptionAsKj();
    }
  }
};

}  // namespace

void addHealth(kj::Vector<Entry>& all) {
  all.add(Entry{.path = "/cluster.ClusterService/HealthCheck",
                .answer = Answer::kItems,
                .wide = kj::heap<HealthCheckMethod>()});
}

}  // namespace talos::edge
