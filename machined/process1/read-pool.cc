#include "machined/process1/read-pool.h"

#include <fcntl.h>
#include <kj/debug.h>
#include <kj/vector.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>

#include "common/base/error.h"

namespace talos {
namespace {

constexpr auto kLookEvery = 1 * kj::SECONDS;

struct Job {
  kj::String doing;
  kj::Function<void()> work;
  uint64_t client;
  kj::Maybe<kj::Exception> failure;
  kj::Own<kj::PromiseFulfiller<void>> done;
  kj::TimePoint begun = kj::origin<kj::TimePoint>();
  bool hangs = false;
};

// State that the loop and the threads share; it lives as long as one of them. Between the two
// queues only the thread that runs a job uses it.
struct Shared {
  std::mutex mutex;
  std::condition_variable news;
  std::deque<Job*> todo, finished;
  unsigned idle = 0;
  bool over = false;
  kj::AutoCloseFd bell;
  std::deque<kj::Own<Job>> left;  // jobs that hang at the end of the pool

  void ring() {
    uint64_t one = 1;
    ssize_t n = write(bell, &one, sizeof one);
    (void)n;  // the counter is full, so the loop will wake up
  }
};

void runThread(std::shared_ptr<Shared> shared) {
  std::unique_lock lock(shared->mutex);
  for (;;) {
    ++shared->idle;
    shared->news.wait(lock, [&] { return shared->over || !shared->todo.empty(); });
    --shared->idle;
    if (shared->over) return;
    auto* job = shared->todo.front();
    shared->todo.pop_front();
    lock.unlock();
    job->failure = kj::runCatchingExceptions([&]() { job->work(); });
    lock.lock();
    shared->finished.push_back(job);
    shared->ring();
  }
}

}  // namespace

struct ReadPool::Impl {
  kj::Timer& timer;
  Options options;
  kj::Function<void(kj::StringPtr)> report;
  std::shared_ptr<Shared> shared = std::make_shared<Shared>();
  std::deque<kj::Own<Job>> queue;
  kj::Vector<kj::Own<Job>> running;  // including those that hang
  unsigned threads = 0, hanging = 0;
  kj::Own<kj::UnixEventPort::FdObserver> observer;
  kj::Promise<void> collecting = nullptr;
  kj::Promise<void> looking = kj::READY_NOW;
  bool looks = false;

  Impl(kj::UnixEventPort& port, kj::Timer& timer, Options options,
       kj::Function<void(kj::StringPtr)> report)
      : timer(timer), options(options), report(kj::mv(report)) {
    int fd;
    KJ_SYSCALL(fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    shared->bell = kj::AutoCloseFd(fd);
    observer = kj::heap<kj::UnixEventPort::FdObserver>(port, fd,
                                                       kj::UnixEventPort::FdObserver::OBSERVE_READ);
    collecting = collect().eagerlyEvaluate([](kj::Exception&& e) {
      KJ_LOG(FATAL, "the pool for reads failed; no read would ever end", e);
      abort();
    });
  }

  ~Impl() noexcept(false) {
    std::unique_lock lock(shared->mutex);
    shared->over = true;
    shared->news.notify_all();
    for (auto& job : running) {
      job->done = nullptr;  // belongs to the loop
      shared->left.push_back(kj::mv(job));
    }
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
    auto job = kj::heap<Job>(Job{.doing = kj::str(doing),
                                 .work = kj::mv(work),
                                 .client = client,
                                 .failure = nullptr,
                                 .done = kj::mv(paf.fulfiller)});
    queue.push_back(kj::mv(job));
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

  // Returns the oldest job that may begin.
  kj::Maybe<kj::Own<Job>> next() {
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
      return kj::mv(job);
    }
    return nullptr;
  }

  void startJobs() {
    while (running.size() - hanging < width()) {
      auto found = next();
      if (found == nullptr) break;
      auto job = kj::mv(KJ_ASSERT_NONNULL(found));
      job->begun = timer.now();
      KJ_IF_MAYBE (e, kj::runCatchingExceptions([&]() { give(*job); })) {
        job->done->reject(error(ErrorKind::kUnavailable,
                                kj::str("cannot start a thread for reads: ", messageOf(*e))));
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
  void give(Job& job) {
    std::unique_lock lock(shared->mutex);
    if (shared->idle <= shared->todo.size() && threads < options.mostThreads) addThread();
    shared->todo.push_back(&job);
    shared->news.notify_one();
  }

  void addThread() {
    try {
      std::thread(runThread, shared).detach();
      ++threads;
    } catch (const std::system_error& e) {
      if (threads > 0) return;  // one of the existing threads takes it
      fail(ErrorKind::kUnavailable, kj::str("cannot start a thread for reads: ", e.what()));
    }
    shared->news.notify_one();
  }

  kj::Promise<void> collect() {
    for (;;) {
      auto readable = observer->whenBecomesReadable();  // before reading: it is edge-triggered
      uint64_t count;
      ssize_t n = read(shared->bell, &count, sizeof count);
      (void)n;
      std::deque<Job*> finished;
      {
        std::unique_lock lock(shared->mutex);
        finished.swap(shared->finished);
      }
      for (auto* job : finished) end(*job);
      startJobs();
      co_await readable;
    }
  }

  void end(Job& job) {
    if (job.hangs) {
      --hanging;
      report(kj::str("a read that hung ended: ", job.doing, "; ", hanging, " still hang"));
    }
    KJ_IF_MAYBE (e, job.failure) {
      job.done->reject(kj::mv(*e));
    } else {
      job.done->fulfill();
    }
    for (auto& other : running) {
      if (other.get() != &job) continue;
      auto ended = kj::mv(other);
      other = kj::mv(running.back());
      running.removeLast();
      return;
    }
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

ReadPool::ReadPool(kj::UnixEventPort& port, kj::Timer& timer, Options options,
                   kj::Function<void(kj::StringPtr)> report)
    : impl(kj::heap<Impl>(port, timer, options, kj::mv(report))) {}
ReadPool::~ReadPool() noexcept(false) = default;

unsigned ReadPool::hanging() const {
  return impl->hanging;
}

kj::Promise<void> ReadPool::runErased(kj::StringPtr doing, kj::Function<void()> work,
                                      uint64_t client) {
  return impl->run(doing, kj::mv(work), client);
}

}  // namespace talos
