// service [<id> [start|stop|restart|kill|status]]
#include <signal.h>
#include <string.h>

#include "common/health/service-state.h"
#include "talosctl/commands/all-commands.h"
#include "talosctl/commands/render-answers.h"

namespace talos::talosctl {

namespace {

using List = rpc::Services::ListResults;

capnp::RemotePromise<List> list(rpc::Node::Client node) {
  return node.servicesRequest().send().getServices().listRequest().send();
}

kj::StringPtr healthName(rpc::Health::Reader health) {
  return health.getUnknown() ? "?" : health.getHealthy() ? "OK" : "Fail";
}

uint64_t now(Invocation& call) {
  return nanoseconds(call.deps.clock.now());
}

kj::Promise<int> runServices(Invocation& call) {
  return tabulate<List>(call, list, [](Invocation& call, kj::ArrayPtr<const Reply<List>> replies) {
    return renderServices(replies, now(call));
  });
}

kj::Promise<int> runDetail(Invocation& call) {
  auto& id = call.arguments[0];
  auto format = formatOf(call);
  auto session = co_await openSession(call);
  auto answers = co_await askAll<List>(*session, list);
  Documents documents(call, format);
  size_t found = 0;
  for (auto& answer : answers.good) {
    for (auto service : answer.value.getServices()) {
      if (service.getId() != id) continue;
      ++found;
      if (format == Format::kTable) {
        call.out(renderService(answer.node, service, now(call)));
      } else {
        documents.answer(answer.node, dynamic<rpc::Service>(service));
      }
    }
  }
  if (format != Format::kTable) {
    for (auto& f : answers.failures) documents.failure(f);
  }
  int status = conclude(call, answers.failures, answers.good.size(), Partial::kIsSuccess);
  if (found == 0 && answers.good.size() > 0) {
    fail(ErrorKind::kNotFound,
         kj::str("service \"", id, "\" is not registered on any of the nodes"));
  }
  co_return status;
}

// Runs a start, stop or restart: their results have the same form.
template <typename Results, typename F>
kj::Promise<int> runAction(Invocation& call, F request) {
  return tabulate<Results>(call, kj::mv(request),
                           [](Invocation&, kj::ArrayPtr<const Reply<Results>> replies) {
                             Table table({"NODE", "RESPONSE"});
                             for (auto& r : replies) table.add(r.node, r.value.getResponse());
                             return table.render();
                           });
}

// Parses "SIGKILL", "KILL", "kill" or "9".
int signalNamed(kj::StringPtr text) {
  KJ_IF_MAYBE (number, text.tryParseAs<int>()) {
    if (*number >= 1 && *number <= SIGRTMAX) return *number;
  }
  auto name = strncasecmp(text.cStr(), "SIG", 3) == 0 ? text.slice(3) : text;
  for (int number = 1; number < NSIG; ++number) {
    auto known = sigabbrev_np(number);
    if (known != nullptr && strcasecmp(known, name.cStr()) == 0) return number;
  }
  failUsage(
      kj::str("\"", text, "\" is not a valid signal; use a name such as SIGTERM, or a number"));
}

kj::Promise<int> runKill(Invocation& call) {
  kj::StringPtr id = call.arguments[0];
  int number = signalNamed(call.text("signal"));
  using Results = rpc::Services::KillResults;
  return tabulate<Results>(
      call,
      [id, number](rpc::Node::Client node) {
        auto request = node.servicesRequest().send().getServices().killRequest();
        request.setId(id);
        request.setSignal(number);
        return request.send();
      },
      [](Invocation& call, kj::ArrayPtr<const Reply<Results>> replies) {
        Table table({"NODE", "RESPONSE"});
        for (auto& r : replies) {
          table.add(r.node,
                    kj::str("Service \"", call.arguments[0], "\" was sent ", call.text("signal")));
        }
        return table.render();
      });
}

kj::Promise<int> runService(Invocation& call) {
  kj::StringPtr action = call.arguments.size() > 1 ? kj::StringPtr(call.arguments[1]) : "status"_kj;
  if (call.given("signal") && action != "kill") failUsage("--signal needs the action kill");
  if (call.arguments.size() == 0) return runServices(call);
  kj::StringPtr id = call.arguments[0];
  if (action == "status") return runDetail(call);
  auto prepare = [id](auto request) {
    request.setId(id);
    return request.send();
  };
  auto services = [](rpc::Node::Client node) {
    return node.servicesRequest().send().getServices();
  };
  if (action == "start") {
    return runAction<rpc::Services::StartResults>(
        call, [=](rpc::Node::Client node) { return prepare(services(node).startRequest()); });
  }
  if (action == "stop") {
    return runAction<rpc::Services::StopResults>(
        call, [=](rpc::Node::Client node) { return prepare(services(node).stopRequest()); });
  }
  if (action == "restart") {
    return runAction<rpc::Services::RestartResults>(
        call, [=](rpc::Node::Client node) { return prepare(services(node).restartRequest()); });
  }
  if (action == "kill") return runKill(call);
  failUsage(kj::str("unknown action \"", action,
                    "\" of command \"service\": use start, stop, restart, kill or status"));
}

// Measures the age by the node's monotonic clock, because the wall clock may have been set since:
// in a boot, the first time server answers after most services have started. Older nodes do not
// report the monotonic time.
kj::String ageOf(rpc::ServiceEvent::Reader event, rpc::Service::Reader service, uint64_t now) {
  bool known = event.getUptime() > 0 && service.getUptime() > 0;
  return known ? age(event.getUptime(), service.getUptime()) : age(event.getTime(), now);
}

}  // namespace

kj::String renderServices(kj::ArrayPtr<const Reply<List>> replies, uint64_t now) {
  Table table({"NODE", "SERVICE", "STATE", "HEALTH", "LAST CHANGE", "LAST EVENT"});
  for (auto& r : replies) {
    for (auto s : r.value.getServices()) {
      auto events = s.getEvents();
      kj::String change = kj::str("<none>"), message = kj::str("<none>");
      if (events.size() > 0) {
        auto last = events[events.size() - 1];
        change = kj::str(ageOf(last, s, now), " ago");
        message = kj::str(last.getMessage());
      }
      table.add(r.node, s.getId(), serviceStateName(s.getState()), healthName(s.getHealth()),
                change, message);
    }
  }
  return table.render();
}

kj::String renderService(kj::StringPtr node, rpc::Service::Reader service, uint64_t now) {
  kj::Vector<kj::String> keys, values;
  auto add = [&](kj::StringPtr key, kj::StringPtr value) {
    keys.add(kj::str(key));
    values.add(printable(value));
  };
  add("NODE", node);
  add("ID", service.getId());
  add("STATE", serviceStateName(service.getState()));
  add("HEALTH", healthName(service.getHealth()));
  auto lastMessage = service.getHealth().getLastMessage();
  if (lastMessage.size() > 0) add("LAST HEALTH MESSAGE", lastMessage);
  auto events = service.getEvents();
  if (events.size() == 0) add("EVENTS", "<none>");
  for (size_t i = events.size(); i-- > 0;) {
    auto e = events[i];
    add(i + 1 == events.size() ? "EVENTS"_kj : ""_kj,
        kj::str("[", serviceStateName(e.getState()), "]: ", e.getMessage(), " (",
                ageOf(e, service, now), " ago)"));
  }
  size_t width = 0;
  for (auto& key : keys) width = kj::max(width, key.size());
  kj::Vector<kj::String> lines;
  for (size_t i = 0; i < keys.size(); ++i) {
    lines.add(kj::str(keys[i], kj::repeat(' ', width + 3 - keys[i].size()), values[i], "\n"));
  }
  return kj::strArray(lines, "");
}

void addServiceCommands(Command& root) {
  auto& service = root.add("service", "List services, show one, start, stop, restart or kill it");
  service.aliases = {"services"};
  service.arguments = "[<id> [start|stop|restart|kill|status]]";
  service.most = 2;
  service.argumentChoices = {{}, {"start", "stop", "restart", "kill", "status"}};
  service.flag({.name = "signal",
                .kind = FlagKind::kText,
                .fallback = "SIGTERM",
                .help = "with kill: signal to send to its process"});
  addOutputFlag(service);
  service.run = runService;
}

}  // namespace talos::talosctl
