#include "machined/process1/uv-loop.h"

#include <kj/debug.h>
#include <kj/list.h>
#include <stdlib.h>
#include <uv.h>

#include "common/base/signal.h"

namespace talos {
namespace {

kj::Exception uvError(int code, kj::StringPtr what) {
  return kj::Exception(kj::Exception::Type::FAILED, __FILE__, __LINE__,
                       kj::str(what, ": ", uv_strerror(code)));
}

struct Work {
  uv_work_t request;
  kj::Function<void()> job;
  kj::Maybe<kj::Exception> failure;
  kj::Own<kj::PromiseFulfiller<void>> done;
  kj::ListLink<Work> link;
  kj::Maybe<kj::Own<Work>> self;  // libuv's reference, until finish()
  kj::List<Work, &Work::link>& pending;

  Work(kj::Function<void()> job, kj::Own<kj::PromiseFulfiller<void>> done,
       kj::List<Work, &Work::link>& pending)
      : job(kj::mv(job)), done(kj::mv(done)), pending(pending) {}

  static void run(uv_work_t* request) {  // on a thread of the pool
    auto& self = *static_cast<Work*>(request->data);
    self.failure = kj::runCatchingExceptions([&]() { self.job(); });
  }

  static void finish(uv_work_t* request, int status) {  // on the loop
    auto& self = *static_cast<Work*>(request->data);
    self.pending.remove(self);
    auto owned = kj::mv(KJ_ASSERT_NONNULL(self.self));
    if (status != 0) {
      owned->done->reject(uvError(status, "the work was cancelled"));
    } else KJ_IF_MAYBE (e, owned->failure) {
      owned->done->reject(kj::mv(*e));
    } else {
      owned->done->fulfill();
    }
  }
};

}  // namespace

struct UvLoop::Impl {
  kj::Timer& timer;
  uv_loop_t loop;
  int initialized;
  uint64_t turns = 0;
  kj::List<Work, &Work::link> pending;
  kj::Own<kj::UnixEventPort::FdObserver> observer;
  Signal kicked;
  kj::Promise<void> pumping;

  Impl(kj::UnixEventPort& port, kj::Timer& timer)
      : timer(timer),
        initialized(uv_loop_init(&loop)),
        observer(kj::heap<kj::UnixEventPort::FdObserver>(
            port, uv_backend_fd(&loop), kj::UnixEventPort::FdObserver::OBSERVE_READ)),
        pumping(nullptr) {
    KJ_REQUIRE(initialized == 0, uv_strerror(initialized));
    pumping = pump().eagerlyEvaluate([](kj::Exception&& e) {
      KJ_LOG(FATAL, "libuv's pump failed; no work would ever end", e);
      abort();
    });
  }

  ~Impl() noexcept(false) {
    pumping = nullptr;
    observer = nullptr;  // before uv_loop_close() closes the descriptor that it watches
    for (auto& work : pending) uv_cancel(reinterpret_cast<uv_req_t*>(&work.request));
    uv_run(&loop, UV_RUN_DEFAULT);  // work that has begun runs to its end
    KJ_ASSERT(uv_loop_close(&loop) == 0, "libuv's loop still had a handle");
  }

  // Makes libuv run again, because it registers new handles only in its next run.
  void kick() { kicked.raise(); }

  kj::Promise<void> pump() {
    for (;;) {
      auto readable = observer->whenBecomesReadable();  // before uv_run: an edge must not be lost
      auto kick = kicked.next();
      uv_run(&loop, UV_RUN_NOWAIT);
      ++turns;
      // libuv reports timeout 0 ("run me now") for a loop without active handles, which would spin.
      int timeout = uv_loop_alive(&loop) ? uv_backend_timeout(&loop) : -1;
      auto wake = readable.exclusiveJoin(kj::mv(kick));
      if (timeout == 0) {
        wake = wake.exclusiveJoin(kj::evalLast([]() {}));
      } else if (timeout > 0) {
        wake = wake.exclusiveJoin(timer.afterDelay(timeout * kj::MILLISECONDS));
      }
      co_await wake;
      co_await kj::evalLast([]() {});  // the caller of kick() finishes first
    }
  }
};

UvLoop::UvLoop(kj::UnixEventPort& port, kj::Timer& timer) : impl(kj::heap<Impl>(port, timer)) {}
UvLoop::~UvLoop() noexcept(false) = default;

uint64_t UvLoop::turns() const {
  return impl->turns;
}

kj::Promise<void> UvLoop::blockingErased(kj::Function<void()> job) {
  auto paf = kj::newPromiseAndFulfiller<void>();
  auto work = kj::heap<Work>(kj::mv(job), kj::mv(paf.fulfiller), impl->pending);
  work->request.data = work.get();
  int result = uv_queue_work(&impl->loop, &work->request, &Work::run, &Work::finish);
  if (result != 0) return uvError(result, "thread pool");
  impl->pending.add(*work);
  auto& self = work->self;
  self = kj::mv(work);
  impl->kick();
  return kj::mv(paf.promise);
}

}  // namespace talos
