#include "machined/telemetry/telemetry-server.h"

namespace talos::machined {
namespace {

class EventsServer final : public rpc::Events::Server {
 public:
  EventsServer(Events& events, PreviousEvents earlier) : events(events), earlier(kj::mv(earlier)) {}
  kj::Promise<void> watch(WatchContext context) override {
    auto params = context.getParams();
    return events.watch(params.getTail(), params.getSink());
  }

  kj::Promise<void> previous(PreviousContext context) override {
    return earlier(context.getParams());
  }

 private:
  Events& events;
  PreviousEvents earlier;
};

class LogsServer final : public rpc::Logs::Server {
 public:
  LogsServer(Logs& logs, KernelLog kernelLog, PreviousLog earlier)
      : logs(logs), kernelLog(kj::mv(kernelLog)), earlier(kj::mv(earlier)) {}

  kj::Promise<void> list(ListContext context) override {
    auto ids = logs.ids();
    auto out = context.getResults().initIds(ids.size());
    for (size_t i = 0; i < ids.size(); i++) out.set(i, ids[i]);
    return kj::READY_NOW;
  }
  kj::Promise<void> read(ReadContext context) override {
    auto params = context.getParams();
    return logs.read(params.getId(), params.getFollow(), params.getTailLines(), params.getFrom(),
                     params.getSink());
  }
  kj::Promise<void> kernel(KernelContext context) override {
    return kernelLog(context.getParams());
  }

  kj::Promise<void> previous(PreviousContext context) override {
    return earlier(context.getParams());
  }

 private:
  Logs& logs;
  KernelLog kernelLog;
  PreviousLog earlier;
};

}  // namespace

rpc::Events::Client serveEvents(Events& events, PreviousEvents previous) {
  return kj::heap<EventsServer>(events, kj::mv(previous));
}

rpc::Logs::Client serveLogs(Logs& logs, KernelLog kernel, PreviousLog previous) {
  return kj::heap<LogsServer>(logs, kj::mv(kernel), kj::mv(previous));
}

}  // namespace talos::machined
