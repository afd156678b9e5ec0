// Cost of a call of etcd from our client, beside its JSON gateway from KJ's HTTP client, one
// connection of mutual TLS each, and beside etcdctl, a process for each call. The same installed
// etcd (one member, which does not wait for its disk), in turn.
//
// And how long etcd itself takes to become three members, one after the other.
//
//   etcd-bench [CALLS]      prints a line of JSON for each figure
//
// link: common-etcd kj-http
#include <kj/compat/http.h>
#include <kj/debug.h>
#include <kj/encoding.h>

#include <deque>
#include <vector>

#include "common/etcd/test-etcd-fixtures.h"
#include "tests/bench/arguments.h"
#include "tests/bench/processes.h"

namespace talos::bench {
namespace {

using namespace etcd;

constexpr unsigned kAtOnce = 64, kWarmUp = 200;

void print(kj::StringPtr what, kj::Vector<uint64_t> took) {
  printf("{\"what\":\"%s\",\"figure\":%s}\n", what.cStr(), json(figureOf(kj::mv(took))).cStr());
}

template <typename Run>
void measureEach(kj::StringPtr what, unsigned calls, Run&& run) {
  kj::Vector<uint64_t> took;
  for (unsigned i = 0; i < calls + kWarmUp; ++i) {
    auto began = nanoseconds();
    run();
    if (i >= kWarmUp) took.add(nanoseconds() - began);
  }
  print(what, kj::mv(took));
}

void measureClient(EtcdFixture& fixture, unsigned calls) {
  auto& etcd = fixture.member(1);
  auto& scope = fixture.scope();
  auto put = [&]() { return etcd.put({kj::str("k"), kj::str("v")}); };
  measureEach("put", calls, [&]() { put().wait(scope); });
  measureEach("read", calls, [&]() { etcd.range({{kj::str("k")}}).wait(scope); });
  auto lease = etcd.grant(60 * kj::SECONDS).wait(scope).id;
  measureEach("beat of a lease", calls, [&]() { etcd.keepAlive(lease).wait(scope); });
  auto watch = etcd.watch({{kj::str("k")}}).wait(scope);
  measureEach("put and event of a watch", calls, [&]() {
    auto event = watch->next();
    put().wait(scope);
    event.wait(scope);
  });

  std::deque<kj::Promise<PutResult>> open;
  auto began = nanoseconds();
  for (unsigned i = 0; i < calls; ++i) {
    if (open.size() == kAtOnce) {
      open.front().wait(scope);
      open.pop_front();
    }
    open.push_back(put());
  }
  for (auto& p : open) p.wait(scope);
  printf("{\"what\":\"puts, %u at once\",\"perSecond\":%.0f}\n", kAtOnce,
         calls / (double(nanoseconds() - began) / 1e9));
}

void measureGateway(RealEtcdFixture& fixture, unsigned calls) {
  auto& scope = fixture.scope();
  auto server = RealEtcd::client(1);
  auto name = server.address.toString();
  auto address = fixture.io.provider->getNetwork().parseAddress(server.toString()).wait(scope);
  auto stream = fixture.credentials.connect(address->connect().wait(scope), name).wait(scope);
  kj::HttpHeaderTable table;
  auto client = kj::newHttpClient(table, *stream);
  kj::HttpHeaders headers(table);
  headers.set(kj::HttpHeaderId::CONTENT_TYPE, "application/json");
  headers.set(kj::HttpHeaderId::HOST, server.toString());
  auto body = kj::str("{\"key\":\"", kj::encodeBase64("k"_kj.asBytes()), "\",\"value\":\"",
                      kj::encodeBase64("v"_kj.asBytes()), "\"}");
  measureEach("put by the JSON gateway", calls, [&]() {
    auto request = client->request(kj::HttpMethod::POST, "/v3/kv/put", headers, body.size());
    request.body->write(body.begin(), body.size()).wait(scope);
    request.body = nullptr;
    auto answer = request.response.wait(scope);
    KJ_REQUIRE(answer.statusCode == 200, answer.statusCode);
    answer.body->readAllBytes().wait(scope);
  });
}

void measureCtl(RealEtcd& real) {
  kj::Vector<uint64_t> took;
  for (int i = 0; i < 30; ++i) {
    auto began = nanoseconds();
    real.ctl({"put", "k", "v"});
    real.finishCtl();
    took.add(nanoseconds() - began);
  }
  print("put by etcdctl", kj::mv(took));
}

// Measures the growth from nothing to three voting members: the first member, and two learners that
// are promoted as soon as etcd permits.
void measureGrowth() {
  auto began = nanoseconds();
  RealEtcd real;
  real.start(1, {1});
  RealEtcdFixture fixture(real);
  fixture.ready(1);
  std::vector<unsigned> all = {1};
  for (unsigned n = 2; n <= 3; ++n) {
    kj::Maybe<MemberId> id;
    // Not before the one before it was seen for long enough.
    fixture.eventually(ErrorKind::kUnavailable, [&] {
      return fixture.member(1)
          .addMember(kj::arr(kj::str(RealEtcd::peerUrl(n))), true)
          .then([&](MemberAdded&& added) { id = added.member.id; });
    });
    all.push_back(n);
    real.start(n, all, true);
    fixture.ready(n);
    fixture.eventually(ErrorKind::kFailedPrecondition, [&] {
      return fixture.member(1).promoteMember(KJ_ASSERT_NONNULL(id)).ignoreResult();
    });
  }
  printf("{\"what\":\"three members\",\"seconds\":%.2f}\n", double(nanoseconds() - began) / 1e9);
}

void measure(const Arguments& arguments) {
  arguments.expect(0, 1);
  auto calls = arguments.numberOr(5000, 1, "CALLS", 1, 1'000'000);
  if (!RealEtcd::installed()) {
    fail(ErrorKind::kInvalidArgument, kj::str(RealEtcd::kProgram, " is not installed"));
  }
  measureGrowth();
  RealEtcd real;
  real.start(1, {1});
  RealEtcdFixture fixture(real);
  fixture.ready(1);
  measureClient(fixture, calls);
  measureGateway(fixture, calls);
  measureCtl(real);
}

}  // namespace
}  // namespace talos::bench

int main(int argc, char** argv) {
  return talos::bench::runMain(argc, argv, "etcd-bench", "[CALLS]", talos::bench::measure);
}
