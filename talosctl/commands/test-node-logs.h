// The logs of a node in the test's own process.
#pragma once

#include "common/base/error.h"
#include "common/base/lines.h"
#include "talosctl/commands/test-node-answers.h"

namespace talos::talosctl {

inline kj::String linesAsked(rpc::LogSince::Reader since, kj::StringPtr contains) {
  auto with = contains.size() > 0 ? kj::str(" with ", contains) : kj::String();
  if (since.isAge()) return kj::str("age ", since.getAge(), with);
  if (since.isTime()) return kj::str("time ", since.getTime(), with);
  return kj::str("always", with);
}

class FakeLogs final : public rpc::Logs::Server {
 public:
  explicit FakeLogs(FakeNode& node) : node_(node) {}

  kj::Promise<void> list(ListContext context) override {
    if (node_.hangs) return kj::NEVER_DONE;
    auto ids = context.getResults().initIds(2);
    ids.set(0, "apid");
    ids.set(1, "../etcd");  // the node has no such log
    return kj::READY_NOW;
  }
  kj::Promise<void> read(ReadContext context) override {
    auto params = context.getParams();
    node_.logFrom.add(params.getFrom());
    node_.linesAsked.add(linesAsked(params.getSince(), params.getContains()));
    if (params.getId() != "apid")
      fail(ErrorKind::kNotFound, kj::str("no log \"", params.getId(), "\""));
    auto sink = params.getSink();
    if (node_.logsFail) {
      node_.keptSinks.add(kj::mv(sink));
      fail(ErrorKind::kPermissionDenied, "not for you");
    }
    for (uint64_t i = params.getFrom(); i < node_.logLines.size(); ++i) {
      if (!containsText(node_.logLines[i], params.getContains())) continue;
      auto request = sink.writeRequest();
      request.setBytes(kj::str(node_.logLines[i], "\n").asBytes());
      request.setNext(i + 1);
      co_await request.send();
    }
    if (params.getFollow()) {
      auto paf = kj::newPromiseAndFulfiller<void>();
      node_.follows.add(kj::mv(paf.fulfiller));
      co_await paf.promise;
    }
  }

  kj::Promise<void> kernel(KernelContext context) override {
    node_.linesAsked.add(
        linesAsked(context.getParams().getSince(), context.getParams().getContains()));
    auto request = context.getParams().getSink().writeRequest();
    auto text = kj::str("kern: info: [2021-03-06T03:06:40Z]: Linux version 6.12\n",
                        kj::strArray(node_.kernelLines, ""));
    request.setBytes(text.asBytes());
    co_await request.send();
  }
  kj::Promise<void> previous(PreviousContext context) override {
    auto params = context.getParams();
    auto request = params.getSink().writeRequest();
    auto line =
        kj::str(params.getId(), " of boot \"", params.getBoot(), "\", last ", params.getTailLines(),
                params.getContains().size() > 0 ? " with " : "", params.getContains(), "\n");
    request.setBytes(line.asBytes());
    co_await request.send();
  }

 private:
  [[maybe_unused]] FakeNode& node_;
};

}  // namespace talos::talosctl
