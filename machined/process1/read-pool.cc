#include "machined/process1/read-pool.h"

#include <kj/debug.h>
#include <kj/vector.h>
#include <stdlib.h>

#include <deque>
#include <memory>

#include "common/base/error.h"
#include "common/base/worker-threads.h"

namespace talos {
namespace {

constexpr auto kLookEvery = 1 * kj::SECONDS;

// A thread that runs the work holds a reference to the job, which it drops when the work has ended.
struct Job {
  kj::String doing;
  kj::Function<void()> work;
  uint64_t client;
  kj::Own<kj::PromiseFulfiller<void>> done;
  kj::TimePoint begun = kj::origin<kj::TimePoint>();
  bool hangs = false;
};

}  // namespace

struct ReadPool::Impl final : private kj::TaskSet::ErrorHandler {
  kj::Timer& timer;
  Options options;
  kj::Function<void(kj::StringPtr)> report;
  WorkerThreads threads{"reads"};
  std::deque<std::shared_ptr<Job>> queue;
  kj::Vector<std::shared_ptr<Job>> running;  // including those that hang
  unsigned hanging = 0;
  kj::TaskSet ends{*this};  // of the running jobs
  kj::Promise<void> looking = kj::READY_NOW;
  bool looks = false;

  Impl(kj::Timer& timer, Options options, kj::Function<void(kj::StringPtr)> report)
      : timer(timer), options(options), report(kj::mv(report)) {}

  ~Impl() noexcept(false) {
    for (auto& job : running) job->done = nullptr;  // belongs to the loop, not to a thread
  }

  // Returns how many jobs may run at once: hanging threads reduce it only at the limit of all
  // threads.
  unsigned width() const { return kj::min(options.threads, options.mostThreads - hanging); }

  kj::Promise<void> run(kj::StringPtr doing, kj::Function<void()> work, uint64_t client) {
    if (width() == 0) {
      return error(ErrorKind::kUnavailable,
                   kj::str("all ", hanging, " threads for reads hang (",
                           running.empty() ? ""_kj : kj::StringPtr(running[0]->doing),
                           "); a disk or a mount does not answer"));
    }
    KJ_IF_MAYBE (what, hangsTooOften(client)) {
      return error(ErrorKind::kUnavailable,
                   kj::str(options.hangingPerClient,
                           options.hangingPerClient == 1 ? " read of this client hangs"
                                                         : " reads of this client hang",
                           " already (", *what, "); a disk or a mount does not answer"));
    }
    if (queue.size() >= options.mostQueued) {
      return error(ErrorKind::kResourceExhausted,
                   kj::str(options.mostQueued, " reads are waiting, which is the limit; retry"));
    }
    auto paf = kj::newPromiseAndFulfiller<void>();
    queue.push_back(std::make_shared<Job>(Job{.doing = kj::str(doing),
                                              .work = kj::mv(work),
                                              .client = client,
                                              .done = kj::mv(paf.fulfiller)}));
    startJobs();
    return kj::mv(paf.promise);
  }

  bool hasItsThreads(uint64_t client) const {
    if (client == 0) return false;
    unsigned working = 0;
    for (auto& job : running) working += job->client == client && !job->hangs;
    return working >= options.perClient || hangsTooOften(client) != nullptr;
  }

  // Returns one of the client's hanging jobs if it has as many as it may have.
  kj::Maybe<kj::StringPtr> hangsTooOften(uint64_t client) const {
    if (client == 0) return nullptr;
    unsigned count = 0;
    for (auto& job : running) {
      if (job->client == client && job->hangs && ++count >= options.hangingPerClient) {
        return job->doing.asPtr();
      }
    }
    return nullptr;
  }

  // Returns the oldest job that may begin, or nullptr if there is none.
  std::shared_ptr<Job> next() {
    for (auto at = queue.begin(); at != queue.end();) {
      if (!(*at)->done->isWaiting()) {  // its caller has dropped it
        at = queue.erase(at);
        continue;
      }
      if (hasItsThreads((*at)->client)) {
        ++at;
        continue;
      }
      auto job = kj::mv(*at);
      queue.erase(at);
      return job;
    }
    return nullptr;
  }

  void startJobs() {
    while (running.size() - hanging < width()) {
      auto job = next();
      if (job == nullptr) break;
      job->begun = timer.now();
      KJ_IF_MAYBE (e, kj::runCatchingExceptions([&]() { begin(job); })) {
        job->done->reject(kj::mv(*e));
        continue;
      }
      running.add(kj::mv(job));
    }
    if (!running.empty() && !looks) {
      looks = true;
      looking = look().eagerlyEvaluate(nullptr);
    }
  }

  // Throws if there is no thread for the job and none can be started.
  void begin(const std::shared_ptr<Job>& job) {
    threads.start(running.size() + 1);
    auto paf = kj::newPromiseAndCrossThreadFulfiller<void>();
    threads.add([job = job, ended = kj::mv(paf.fulfiller)]() mutable {
      auto failure = kj::runCatchingExceptions([&]() { job->work(); });
      job = nullptr;  // before the loop learns of it: the loop destroys the work
      KJ_IF_MAYBE (e, failure) {
        ended->reject(kj::mv(*e));
      } else {
        ended->fulfill();
      }
    });
    ends.add(paf.promise.then(
        [this, &job = *job]() {
          job.done->fulfill();
          end(job);
        },
        [this, &job = *job](kj::Exception&& e) {
          job.done->reject(kj::mv(e));
          end(job);
        }));
  }

  void taskFailed(kj::Exception&& e) override {
    KJ_LOG(FATAL, "the pool for reads failed; no read would ever end", e);
    abort();
  }

  void end(Job& job) {
    if (job.hangs) {
      --hanging;
      report(kj::str("a read that hung ended: ", job.doing, "; ", hanging, " still hang"));
    }
    for (auto& other : running) {
      if (other.get() != &job) continue;
      auto ended = kj::mv(other);
      other = kj::mv(running.back());
      running.removeLast();
      break;
    }
    startJobs();
  }

  kj::Promise<void> look() {
    while (!running.empty()) {
      co_await timer.afterDelay(kLookEvery);
      for (auto& job : running) {
        if (job->hangs || timer.now() - job->begun < options.hangsAfter) continue;
        job->hangs = true;
        ++hanging;
        report(kj::str("a read hangs for ", options.hangsAfter / kj::SECONDS, " s: ", job->doing,
                       "; ", hanging, " of at most ", options.mostThreads, " threads hang"));
      }
      if (width() == 0) refuseAll();
      startJobs();
    }
    looks = false;
  }

  // Refuses queued jobs, because no thread will take them.
  void refuseAll() {
    while (!queue.empty()) {
      queue.front()->done->reject(
          error(ErrorKind::kUnavailable,
                kj::str("all ", hanging, " threads for reads hang; retry later")));
      queue.pop_front();
    }
  }
};

ReadPool::ReadPool(kj::Timer& timer, Options options, kj::Function<void(kj::StringPtr)> report)
    : impl(kj::heap<Impl>(timer, options, kj::mv(report))) {}
ReadPool::~ReadPool() noexcept(false) = default;

unsigned ReadPool::hanging() const {
  return impl->hanging;
}

kj::Promise<void> ReadPool::runErased(kj::StringPtr doing, kj::Function<void()> work,
                                      uint64_t client) {
  return impl->run(doing, kj::mv(work), client);
}

}  // namespace talos
