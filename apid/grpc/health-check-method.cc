// The method HealthCheck: the checks of `talosctl health`, run by this node with the calls that the
// client may make.
#include <deque>

#include "apid/grpc/method-table.h"
#include "common/base/signal.h"
#include "common/base/within.h"
#include "common/grpc-messages/field-transforms.h"
#include "common/grpc-messages/request-fields.h"
#include "common/health/run-health.h"

namespace talos::grpcapi {
namespace {

constexpr size_t kMostNamed = 256;         // in each list
constexpr size_t kMostLines = 1000;        // that the client has not read
constexpr size_t kLongestLine = 4u << 10;  // A node may send any text as a reason.
constexpr auto kDefaultTimeout = 20 * kj::MINUTES, kLongestTimeout = 24 * kj::HOURS;

// Reaches nodes through the client's Cluster, and Kubernetes through the called node. Each node is
// charged to the client's account like a node of a call to several; when the account is exhausted,
// the node counts as silent with this error.
class ClusterObserver final : public HealthObserver {
 public:
  ClusterObserver(CallContext context, rpc::Node::Client node)
      : context(context), node(kj::mv(node)) {}

  kj::Promise<kj::Array<NodeFacts>> nodes(kj::ArrayPtr<const kj::String> names,
                                          kj::Duration deadline) override {
    auto asked = KJ_MAP(name, names)->kj::Promise<NodeFacts> {
      kj::Maybe<Budget::Account::Hold> hold;
      KJ_IF_MAYBE (account, context.account) {
        try {
          hold = account->hold(0);
        } catch (const kj::Exception& e) {
          return silentFacts(name, messageOf(e));
        }
      }
      auto request = context.cluster.nodeRequest();
      request.setAddress(name);
      request.setRequest(context.request);
      return factsOf(context.timer, request.send().getNode(), kj::str(name), deadline,
                     kj::str("no answer within ", deadline / kj::SECONDS, " s"))
          .attach(kj::mv(hold));
    };
    return kj::joinPromises(kj::mv(asked));
  }
  kj::Promise<Survey> survey(kj::Duration deadline) override {
    using Answer = capnp::Response<rpc::Kubernetes::SurveyResults>;
    auto asked = node.kubernetesRequest().send().getKubernetes().surveyRequest().send();
    auto answer = kj::heap(
        co_await within(context.timer, deadline, kj::Promise<Answer>(kj::mv(asked)),
                        kj::str("Kubernetes: no answer within ", deadline / kj::SECONDS, " s")));
    auto survey = answer->getSurvey();
    co_return Survey{survey, kj::mv(answer)};
  }

 private:
  CallContext context;
  rpc::Node::Client node;
};

// Sends a message for each change of state, as fast as the client reads.
class ProgressLines final : public HealthReport {
 public:
  explicit ProgressLines(Output& output) : output(output) {}

  void discovered(const ClusterNodes& nodes) override { add(discoveredLine(nodes)); }
  void begin(kj::StringPtr name) override {
    check = kj::str(name);
    state(CheckResult::waiting(kj::String()));
  }
  void state(const CheckResult& result) override {
    auto line = kj::str("waiting for ", check, ": ", resultText(result));
    if (line != last) add(kj::str(line));
    last = kj::mv(line);
  }
  void end() override {}

  // Ends the sequence of messages.
  void close() {
    closed = true;
    added.raise();
  }
  // Resolves when the client has taken the last line.
  kj::Promise<void> sendAll() {
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
      fail(ErrorKind::kResourceExhausted, "the client does not read the results of the checks");
    }
    if (line.size() > kLongestLine) line = kj::heapString(line.slice(0, kLongestLine));
    lines.push_back(kj::mv(line));
    added.raise();
  }
};

struct HealthRequest {
  kj::Duration timeout = kDefaultTimeout;
  ClusterNodes nodes;  // nullptr: the nodes that Kubernetes knows

  explicit HealthRequest(const RequestFields& request) {
    if (request.has(1)) {
      timeout = kj::max(nanosecondsOf(request.bytes(1)), int64_t(0)) * kj::NANOSECONDS;
      timeout = kj::min(timeout, kLongestTimeout);
    }
    auto cluster = request.in(2);
    add(cluster, 1, nodes.controlPlane);
    add(cluster, 2, nodes.workers);
    if (cluster.bytes(3).size() > 0) {
      fail(ErrorKind::kUnimplemented,
           "the node checks Kubernetes by its own API server; leave out --k8s-endpoint, or use "
           "--server=false");
    }
    if (nodes.controlPlane.empty() && !nodes.workers.empty()) {
      fail(ErrorKind::kInvalidArgument,
           "a list of workers needs a list of control-plane nodes; without both, the nodes of "
           "Kubernetes are checked");
    }
  }

 private:
  static void add(const RequestFields& cluster, uint32_t field, kj::Vector<kj::String>& list) {
    cluster.each(field, kMostNamed, [&](const WireField& one) { list.add(textOf(one)); });
  }
};

class HealthCheckMethod final : public StreamMethod {
 public:
  kj::Promise<void> ask(rpc::Node::Client node, CallContext context, RequestStream& input,
                        Output& output) const override {
    auto message = co_await input.next();
    HealthRequest asked{RequestFields(message.map([](auto& m) { return Bytes(m); }).orDefault({}))};
    // Fails at once if this node is unreachable or denies calls; a check would only show it as
    // unhealthy.
    co_await node.machineRequest().send().getMachine().statusRequest().send().ignoreResult();
    ClusterObserver observer(context, kj::mv(node));
    ProgressLines lines(output);
    HealthRun run(context.timer, observer, lines, asked.timeout);
    kj::Maybe<kj::Exception> problem;
    auto checking = kj::heapArrayBuilder<kj::Promise<void>>(2);
    checking.add(check(run, asked.nodes, problem).then([&] { lines.close(); }));
    checking.add(lines.sendAll());
    co_await kj::joinPromisesFailFast(checking.finish());
    KJ_IF_MAYBE (p, problem) kj::throwFatalException(kj::mv(*p));
  }

 private:
  static kj::Promise<void> check(HealthRun& run, ClusterNodes& nodes,
                                 kj::Maybe<kj::Exception>& problem) {
    try {
      if (nodes.controlPlane.empty()) {
        co_await run.checkListed("");
      } else {
        co_await run.check(nodes);
      }
    } catch (...) {
      problem = kj::getCaughtExceptionAsKj();
    }
  }
};

}  // namespace

void addHealth(kj::Vector<Entry>& all) {
  all.add(Entry{.path = "/cluster.ClusterService/HealthCheck",
                .answer = Answer::kItems,
                .streamMethod = kj::heap<HealthCheckMethod>()});
}

}  // namespace talos::grpcapi
