#include "tests/kubernetes/api-writer.h"

#include <kj/async-io.h>
#include <kj/debug.h>
#include <time.h>

#include "common/base/error.h"

namespace talos {
namespace {

constexpr auto kBetween = 500 * kj::MILLISECONDS, kBeforeSecond = 500 * kj::MILLISECONDS,
               kDeadline = 2 * kj::SECONDS;

kj::TimePoint now() {
  return kj::systemPreciseMonotonicClock().now();
}

std::string timeOfDay() {
  timespec at{};
  KJ_SYSCALL(clock_gettime(CLOCK_REALTIME, &at));
  tm parts{};
  KJ_REQUIRE(gmtime_r(&at.tv_sec, &parts) != nullptr);
  char text[32];
  auto size = strftime(text, sizeof text, "%H:%M:%S", &parts);
  snprintf(text + size, sizeof text - size, ".%02d", int(at.tv_nsec / 10'000'000));
  return text;
}

class Reports : public kj::TaskSet::ErrorHandler {
 public:
  void taskFailed(kj::Exception&& failure) override { KJ_LOG(ERROR, failure); }
};

}  // namespace

ApiWriter::ApiWriter(int place, const std::string& kubeconfig, const std::string& object)
    : place(kj::AutoCloseFd(dup(place))), kubeconfig(kubeconfig), object(object), last(now()) {
  thread = std::thread([this] { run(); });
}

ApiWriter::~ApiWriter() noexcept {
  over = true;
  thread.join();
}

ApiWriter::Figures ApiWriter::take() {
  std::lock_guard<std::mutex> lock(mutex);
  auto taken = figures;
  auto open = double((now() - last) / kj::MILLISECONDS) / 1000;
  taken.longest = std::max(taken.longest, open);
  figures = {};
  return taken;
}

void ApiWriter::checkWritten(const KubeCluster& cluster) {
  std::array<uint64_t, kKeys> acknowledged;
  {
    std::lock_guard<std::mutex> lock(mutex);
    acknowledged = written;
  }
  for (size_t i = 0; i < kKeys; ++i) {
    auto there = cluster.ok(
        {"get", "configmap", object, "-o", "jsonpath={.data.k" + std::to_string(i) + "}"});
    EXPECT_GE(strtoull(there.c_str(), nullptr, 10), acknowledged[i])
        << "an answered write to k" << i << " is lost";
  }
}

void ApiWriter::run() {
  enter(place);
  auto io = kj::setupAsyncIo();
  auto& timer = io.provider->getTimer();
  DialDependencies deps{*io.lowLevelProvider, io.unixEventPort, timer};
  Reports reports;
  kj::TaskSet calls(reports);
  for (uint64_t number = 1; !over; ++number) {
    calls.add(call(deps, number));
    timer.afterDelay(kBetween).wait(io.waitScope);
  }
}

kj::Promise<void> ApiWriter::call(DialDependencies deps, uint64_t number) {
  if (co_await attempt(deps, number, true)) co_return;
  co_await deps.timer.afterDelay(kBeforeSecond);
  co_await attempt(deps, number, false);
}

kj::Promise<bool> ApiWriter::attempt(DialDependencies deps, uint64_t number, bool first) {
  auto access = kube::readAccess(kubeconfig.c_str(), "kubeconfig");
  auto dial = kube::dialerOf(deps, access);
  kube::KubeClient client(deps.timer, [] { return 0.5; }, kj::mv(dial), kj::mv(access));
  kube::Json change = {{"data", {{"k" + std::to_string(number % kKeys), std::to_string(number)}}}};
  auto maps = kube::coreResource("configmaps", "ConfigMap");
  kj::Maybe<kj::Exception> failed;
  try {
    co_await deps.timer.timeoutAfter(
        kDeadline, client
                       .patch(kube::Patch::kMerge, maps, "default", object.c_str(), change,
                              "kubernetes-faults-test")
                       .ignoreResult());
  } catch (...) {
    failed = kj::getCaughtExceptionAsKj();
  }
  KJ_IF_MAYBE (failure, failed) {
    count(number, failure, first);
    co_return false;
  }
  count(number, nullptr, first);
  co_return true;
}

void ApiWriter::count(uint64_t number, const kj::Exception* failure, bool first) {
  std::lock_guard<std::mutex> lock(mutex);
  figures.calls += first;
  if (failure != nullptr) {
    ++(first ? figures.failed : figures.lost);
    figures.error = messageOf(*failure).cStr();
    figures.failures.push_back(timeOfDay() + (first ? " first try: " : " second try: ") +
                               figures.error);
    bool ofTls = figures.error.find("certificate") != std::string::npos;
    figures.refused += ofTls || kindOf(*failure) == ErrorKind::kUnauthenticated;
    return;
  }
  auto at = now();
  figures.longest = std::max(figures.longest, double((at - last) / kj::MILLISECONDS) / 1000);
  last = at;
  auto& key = written[number % kKeys];
  key = std::max(key, number);
  ++succeeded;
}

}  // namespace talos
