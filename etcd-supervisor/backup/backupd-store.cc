#include "etcd-supervisor/backup/backupd-store.h"

#include <kj/refcount.h>

#include "common/base/error.h"
#include "common/base/within.h"
#include "common/text/foreign-text.h"
#include "etcd-supervisor/control/kept-snapshot.h"

namespace talos::supervisor {
namespace {

constexpr size_t kMostErrorBytes = 500;
constexpr auto kStartDeadline = 20 * kj::SECONDS, kStartPause = 200 * kj::MILLISECONDS;

// Time at which backupd last requested a piece.
struct Progress : public kj::Refcounted {
  kj::TimePoint last = kj::origin<kj::TimePoint>();
};

class WatchedSource final : public rpc::ByteSource::Server {
 public:
  WatchedSource(rpc::ByteSource::Client file, kj::Timer& timer, kj::Own<Progress> progress)
      : file(kj::mv(file)), timer(timer), progress(kj::mv(progress)) {}

  kj::Promise<void> read(ReadContext context) override {
    progress->last = timer.now();
    auto request = file.readRequest();
    request.setOffset(context.getParams().getOffset());
    request.setSize(context.getParams().getSize());
    return context.tailCall(kj::mv(request));
  }

 private:
  rpc::ByteSource::Client file;
  kj::Timer& timer;
  kj::Own<Progress> progress;
};

class BackupdStore final : public ObjectStore {
 public:
  BackupdStore(kj::Timer& timer, rpc::Backupd::Client backupd, kj::String store)
      : timer(timer), backupd(kj::mv(backupd)), store(kj::mv(store)) {}

  kj::Promise<kj::Vector<kj::String>> list(kj::StringPtr prefix) override {
    co_await ready();
    auto request = backupd.listRequest();
    request.setStore(store);
    request.setPrefix(prefix);
    auto answer = co_await answered<capnp::Response<rpc::Backupd::ListResults>>(request.send());
    kj::Vector<kj::String> names;
    for (auto name : answer.getNames()) {
      if (!name.startsWith(prefix) || (!names.empty() && name <= names.back())) {
        fail(ErrorKind::kUnavailable, "the list of backupd is not sorted by names");
      }
      names.add(kj::str(name));
    }
    co_return names;
  }

  kj::Promise<void> put(kj::StringPtr name, UploadFile file) override {
    auto progress = kj::refcounted<Progress>();
    progress->last = timer.now();
    auto request = backupd.putRequest();
    request.setStore(store);
    request.setName(name);
    request.setSize(file.size);
    request.setSha256(file.sha256);
    request.setContent(
        kj::heap<WatchedSource>(sourceOf(kj::mv(file.file)), timer, kj::addRef(*progress)));
    co_await checked(kj::Promise<void>(request.send().ignoreResult())
                         .exclusiveJoin(silence(kj::addRef(*progress))));
  }

  kj::Promise<void> remove(kj::StringPtr name) override {
    auto request = backupd.removeRequest();
    request.setStore(store);
    request.setName(name);
    co_await answered<capnp::Response<rpc::Backupd::RemoveResults>>(request.send());
  }

 private:
  kj::Timer& timer;
  rpc::Backupd::Client backupd;
  kj::String store;

  // Waits until backupd answers, or for a limited time; the next call then has the error.
  kj::Promise<void> ready() {
    for (auto end = timer.now() + kStartDeadline; timer.now() < end;) {
      bool answers = true;
      co_await within(timer, kStartDeadline,
                      kj::Promise<void>(backupd.readyRequest().send().ignoreResult()),
                      kj::str("backupd does not start"))
          .catch_([&](kj::Exception&&) { answers = false; });
      if (answers) co_return;
      co_await timer.afterDelay(kStartPause);
    }
  }

  // Checks the error of a call: a message of backupd may quote text that a foreign server has sent.
  template <typename T>
  static kj::Promise<T> checked(kj::Promise<T> call) {
    return call.catch_([](kj::Exception&& e) -> kj::Promise<T> {
      return error(ErrorKind::kUnavailable, fieldText(messageOf(e), kMostErrorBytes));
    });
  }
  template <typename T>
  kj::Promise<T> answered(kj::Promise<T> call) {
    return checked(
        within(timer, kBackupdSilence, kj::mv(call),
               kj::str("no answer of backupd within ", kBackupdSilence / kj::MINUTES, " min"),
               ErrorKind::kUnavailable));
  }

  // Rejects when backupd has requested nothing for kBackupdSilence.
  kj::Promise<void> silence(kj::Own<Progress> progress) {
    while (timer.now() - progress->last < kBackupdSilence) {
      co_await timer.atTime(progress->last + kBackupdSilence);
    }
    fail(ErrorKind::kUnavailable,
         kj::str("backupd says nothing for ", kBackupdSilence / kj::MINUTES, " min"));
  }
};

}  // namespace

kj::Own<ObjectStore> backupdStore(kj::Timer& timer, rpc::Backupd::Client backupd,
                                  kj::String store) {
  return kj::heap<BackupdStore>(timer, kj::mv(backupd), kj::mv(store));
}

}  // namespace talos::supervisor
