#include "machined/logs/events-and-logs-server.h"

#include "common/base/fill-list.h"
#include "machined/logs/log-since.h"

namespace talos::machined {
namespace {

class EventsServer final : public rpc::Events::Server {
 public:
  EventsServer(Events& events, PreviousEvents earlier, kj::Own<ClientCalls> calls)
      : events(events), earlier(kj::mv(earlier)), calls(kj::mv(calls)) {}
  kj::Promise<void> watch(WatchContext context) override {
    auto slot = calls->enter(CallKind::kStream);
    auto params = context.getParams();
    return events.watch(params.getTail(), params.getSink(), params.getOnce()).attach(kj::mv(slot));
  }

  kj::Promise<void> previous(PreviousContext context) override {
    auto slot = calls->enter(CallKind::kRead);
    return earlier(context.getParams()).attach(kj::mv(slot));
  }

 private:
  Events& events;
  PreviousEvents earlier;
  kj::Own<ClientCalls> calls;
};

class LogsServer final : public rpc::Logs::Server {
 public:
  LogsServer(Logs& logs, KernelLog kernelLog, PreviousLog earlier, kj::Own<ClientCalls> calls)
      : logs(logs), kernelLog(kj::mv(kernelLog)), earlier(kj::mv(earlier)), calls(kj::mv(calls)) {}

  kj::Promise<void> list(ListContext context) override {
    auto ids = logs.ids();
    fillTexts(context.getResults().initIds(ids.size()), ids);
    return kj::READY_NOW;
  }
  kj::Promise<void> read(ReadContext context) override {
    auto slot = calls->enter(CallKind::kStream);
    auto params = context.getParams();
    LogQuery query{.follow = params.getFollow(),
                   .tailLines = params.getTailLines(),
                   .from = params.getFrom(),
                   .contains = kj::str(params.getContains()),
                   .since = momentOf(params.getSince())};
    return logs.read(params.getId(), kj::mv(query), params.getSink()).attach(kj::mv(slot));
  }
  kj::Promise<void> kernel(KernelContext context) override {
    auto slot = calls->enter(CallKind::kKernelLog);
    return kernelLog(context.getParams()).attach(kj::mv(slot));
  }

  kj::Promise<void> previous(PreviousContext context) override {
    auto slot = calls->enter(CallKind::kRead);
    return earlier(context.getParams()).attach(kj::mv(slot));
  }

 private:
  Logs& logs;
  KernelLog kernelLog;
  PreviousLog earlier;
  kj::Own<ClientCalls> calls;
};

}  // namespace

rpc::Events::Client serveEvents(Events& events, PreviousEvents previous,
                                kj::Own<ClientCalls> calls) {
  return kj::heap<EventsServer>(events, kj::mv(previous), kj::mv(calls));
}

rpc::Logs::Client serveLogs(Logs& logs, KernelLog kernel, PreviousLog previous,
                            kj::Own<ClientCalls> calls) {
  return kj::heap<LogsServer>(logs, kj::mv(kernel), kj::mv(previous), kj::mv(calls));
}

}  // namespace talos::machined
