// config …: the client configuration
#include <fnmatch.h>

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/talosconfig/talosconfig.h"
#include "common/text/foreign-text.h"
#include "talosctl/cli/standard-input.h"
#include "talosctl/client/answer-output.h"
#include "talosctl/client/cluster-client.h"
#include "talosctl/client/file-lock.h"
#include "talosctl/commands/all-commands.h"
#include "talosctl/commands/render-answers.h"

namespace talos::talosctl {

namespace {

// Reads the file, calls `change` with its content, writes it back.
template <typename F>
kj::Promise<int> edit(Invocation& call, F change) {
  co_await changeTalosconfig(call.deps.timer, configPath(call),
                             [change = kj::mv(change)](Talosconfig& config) mutable {
                               change(config);
                               return true;
                             });
  co_return 0;
}

// Returns the arguments without blanks around them, checked.
kj::Vector<kj::String> hosts(Invocation& call, kj::StringPtr what) {
  kj::Vector<kj::String> result;
  for (auto& argument : call.arguments) {
    size_t begin = 0, end = argument.size();
    while (begin < end && argument[begin] == ' ') ++begin;
    while (end > begin && argument[end - 1] == ' ') --end;
    result.add(kj::heapString(argument.slice(begin, end)));
    checkHost(result.back(), what);
  }
  return result;
}

// Returns the context of --context, or the current context.
Context& contextOf(Invocation& call, Talosconfig& config) {
  return config.resolve(call.text("context"));
}

kj::Promise<int> runEndpoint(Invocation& call) {
  call.done = kj::str("endpoints of the context: ", kj::strArray(call.arguments, ", "));
  return edit(call, [&call](Talosconfig& config) {
    contextOf(call, config).endpoints = hosts(call, "endpoint");
  });
}

kj::Promise<int> runNode(Invocation& call) {
  call.done = call.arguments.size() == 0
                  ? kj::str("the context has no nodes now")
                  : kj::str("nodes of the context: ", kj::strArray(call.arguments, ", "));
  return edit(
      call, [&call](Talosconfig& config) { contextOf(call, config).nodes = hosts(call, "node"); });
}

kj::Promise<int> runContext(Invocation& call) {
  call.done = kj::str("current context: ", call.arguments[0]);
  return edit(call, [&call](Talosconfig& config) { config.select(call.arguments[0]); });
}

kj::Promise<int> runAdd(Invocation& call) {
  Context context{.endpoints = {},
                  .nodes = {},
                  .ca = readFile(call.text("ca")),
                  .certificate = readFile(call.text("crt")),
                  .key = pki::Pem(readFile(call.text("key")))};
  TlsEndpoint check(
      context.credentials());  // throws if they cannot be parsed or do not belong together
  call.done = kj::str("added the context ", call.arguments[0]);
  return edit(call, [&call, context = kj::mv(context)](Talosconfig& config) mutable {
    config.add(call.arguments[0], kj::mv(context));
  });
}

kj::Promise<int> runMerge(Invocation& call) {
  for (auto& from : call.arguments) {
    if (tryReadFile(from) == nullptr) fail(ErrorKind::kNotFound, kj::str(from, ": no such file"));
  }
  for (auto& from : call.arguments) {
    auto renames = co_await mergeTalosconfigFile(call.deps.timer, from, configPath(call));
    for (auto& line : renames) call.err(kj::str(line, "\n"));
  }
  call.done = kj::str("merged ", kj::strArray(call.arguments, ", "));
  co_return 0;
}

kj::Promise<int> runRename(Invocation& call) {
  call.done = kj::str("renamed the context ", call.arguments[0], " to ", call.arguments[1]);
  return edit(
      call, [&call](Talosconfig& config) { config.rename(call.arguments[0], call.arguments[1]); });
}

// Returns the contexts that a name or a pattern of a shell means, without the current one. Throws
// if there is no such context, or if the name is that of the current one.
kj::Vector<kj::String> contextsToRemove(Invocation& call, kj::StringPtr pattern) {
  auto config = Talosconfig::load(configPath(call));
  auto current = config.currentName();
  if (pattern == current) {
    fail(ErrorKind::kFailedPrecondition,
         kj::str("cannot remove \"", current,
                 "\": it is the current context; switch to another one with `talosctl config "
                 "context NAME`"));
  }
  kj::Vector<kj::String> names;
  bool matched = false;
  for (auto& entry : config.contexts()) {
    if (entry.key != pattern && fnmatch(pattern.cStr(), entry.key.cStr(), 0) != 0) continue;
    matched = true;
    if (entry.key == current) {
      call.err(kj::str("skipping removal of current context \"", current,
                       "\"; switch to another one with `talosctl config context NAME`\n"));
    } else {
      names.add(kj::str(entry.key));
    }
  }
  if (!matched) {
    fail(ErrorKind::kNotFound,
         kj::str("no contexts matched \"", pattern, "\"; `talosctl config contexts` lists them"));
  }
  return names;
}

// Every question is answered before the file is changed.
kj::Promise<int> runRemove(Invocation& call) {
  bool dryRun = call.on("dry-run"), asks = !dryRun && !call.on("noconfirm");
  auto names = contextsToRemove(call, call.arguments[0]);
  if (asks && !names.empty() && !canAsk(call, "whether to remove a context", "--noconfirm")) {
    fail(ErrorKind::kFailedPrecondition,
         "cannot ask whether to remove a context: there is no terminal; use --noconfirm, or "
         "--dry-run to see which contexts would be removed");
  }
  kj::Vector<kj::String> chosen;
  for (auto& name : names) {
    if (dryRun) {
      call.out(kj::str("would remove context \"", name, "\"\n"));
    } else if (asks) {
      if (co_await confirmed(call.deps, kj::str("remove context \"", name, "\"?"))) {
        chosen.add(kj::mv(name));
      }
    } else {
      call.err(kj::str("removing context \"", name, "\"\n"));
      chosen.add(kj::mv(name));
    }
  }
  if (chosen.empty()) co_return 0;
  co_await changeTalosconfig(call.deps.timer, configPath(call), [&chosen](Talosconfig& config) {
    for (auto& name : chosen) {
      if (name == config.currentName()) {
        fail(ErrorKind::kConflict, kj::str("\"", name,
                                           "\" has become the current context "
                                           "meanwhile; nothing was removed"));
      }
      config.remove(name);
    }
    return true;
  });
  co_return 0;
}

kj::Promise<int> runContexts(Invocation& call) {
  auto config = Talosconfig::load(configPath(call));
  Table table({"CURRENT", "NAME", "ENDPOINTS", "NODES"});
  kj::Vector<kj::String> objects, rows;
  for (auto& entry : config.contexts()) {
    auto& nodes = entry.value.nodes;
    bool current = entry.key == config.currentName();
    auto shown = kj::strArray(nodes.asPtr().slice(0, kj::min(nodes.size(), size_t(3))), ",");
    table.add(current ? "*" : "", entry.key, kj::strArray(entry.value.endpoints, ","),
              nodes.size() > 3 ? kj::str(shown, "...") : kj::mv(shown));
    objects.add(kj::str("    {\"name\": ", jsonString(entry.key), ", \"current\": ", current,
                        ", \"endpoints\": ", jsonList(entry.value.endpoints),
                        ", \"nodes\": ", jsonList(nodes), "}"));
    rows.add(kj::str("- name: ", jsonString(entry.key), "\n  current: ", current, "\n  endpoints: ",
                     jsonList(entry.value.endpoints), "\n  nodes: ", jsonList(nodes), "\n"));
  }
  if (formatOf(call) == Format::kTable) {
    call.out(table.render());
  } else if (formatOf(call) == Format::kYaml) {
    call.out(rows.size() > 0 ? kj::strArray(rows, "") : kj::str("[]\n"));
  } else {
    call.out(kj::str("[", objects.size() > 0 ? "\n" : "", kj::strArray(objects, ",\n"),
                     objects.size() > 0 ? "\n" : "", "]\n"));
  }
  return 0;
}

// Formats a time in its largest unit: "3 hours from now", "2 days ago".
kj::String fromNow(uint64_t then, uint64_t now) {
  struct Unit {
    kj::StringPtr name;
    uint64_t seconds;
  };
  static constexpr Unit kUnits[] = {{"year"_kj, 365 * 86400},
                                    {"day"_kj, 86400},
                                    {"hour"_kj, 3600},
                                    {"minute"_kj, 60},
                                    {"second"_kj, 1}};
  auto seconds = (then > now ? then - now : now - then) / 1'000'000'000;
  auto behind = then > now ? " from now"_kj : " ago"_kj;
  for (auto& unit : kUnits) {
    auto count = seconds / unit.seconds;
    if (count > 0) return kj::str(count, " ", unit.name, count == 1 ? "" : "s", behind);
  }
  return kj::str("now");
}

// Renders JSON or YAML; the values are the same in both.
kj::String infoDocument(Format format, kj::StringPtr name, const Context& context,
                        const pki::CertificateInfo& certificate, uint64_t expiry, uint64_t now) {
  bool json = format == Format::kJson;
  auto left = expiry > now ? (expiry - now) / 1'000'000'000 : 0;
  auto row = [&](kj::StringPtr key, kj::StringPtr value) {
    return json ? kj::str("    \"", key, "\": ", value) : kj::str(key, ": ", value);
  };
  auto rows = kj::arr(
      row("context", jsonString(name)), row("endpoints", jsonList(context.endpoints)),
      row("nodes", jsonList(context.nodes)), row("roles", jsonList(certificate.organizations)),
      row("certTTL", jsonString(fromNow(expiry, now))),
      row("certNotAfter", jsonString(rfc3339(expiry))),
      row("certificateExpires", jsonString(rfc3339(expiry))),
      row("certificateSecondsLeft", kj::str(left)));
  return json ? kj::str("{\n", kj::strArray(rows, ",\n"), "\n}\n")
              : kj::str(kj::strArray(rows, "\n"), "\n");
}

kj::Promise<int> runInfo(Invocation& call) {
  auto config = readTalosconfig(call);
  auto& context = config.resolve(call.text("context"));
  auto name = call.text("context").size() > 0 ? call.text("context") : config.currentName();
  auto certificate = pki::inspect(context.certificate);
  auto expiry = nanoseconds(certificate.notAfter), now = nanoseconds(call.deps.clock.now());
  if (formatOf(call) != Format::kTable) {
    call.out(infoDocument(formatOf(call), name, context, certificate, expiry, now));
    return 0;
  }
  auto listed = [](kj::ArrayPtr<const kj::String> list) {
    return list.size() > 0 ? kj::strArray(list, ", ") : kj::str("not defined");
  };
  auto date = kj::heapString(rfc3339(expiry).slice(0, 10));
  call.out(printableText(
      kj::str("Current context:     ", name, "\nNodes:               ", listed(context.nodes),
              "\nEndpoints:           ", listed(context.endpoints),
              "\nRoles:               ", kj::strArray(certificate.organizations, ", "),
              "\nCertificate expires: ", fromNow(expiry, now), " (", date, ")\n")));
  return 0;
}

kj::Promise<int> runGenerate(Invocation& call) {
  fail(ErrorKind::kUnimplemented, "\"talosctl config generate\" is now \"talosctl gen config\"");
}

Command& declare(Command& parent, kj::StringPtr name, kj::StringPtr summary,
                 kj::StringPtr arguments, unsigned least, unsigned most, Run run) {
  auto& command = parent.add(name, summary);
  command.arguments = arguments;
  command.least = least;
  command.most = most;
  command.run = run;
  return command;
}

}  // namespace

void addConfigCommands(Command& root) {
  auto& config = root.add("config", "Show and change the client configuration");
  declare(config, "endpoint", "Set the endpoints of the current context", "<endpoint>...", 1,
          kj::maxValue, runEndpoint)
      .aliases = {"endpoints"};
  declare(config, "node", "Set the default nodes of the current context, or clear them",
          "[node...]", 0, kj::maxValue, runNode)
      .aliases = {"nodes"};
  declare(config, "context", "Switch to another context", "<context>", 1, 1, runContext).aliases = {
      "use-context"};
  auto& contexts = declare(config, "contexts", "List the contexts", "", 0, 0, runContexts);
  contexts.aliases = {"get-contexts"};
  addOutputFlag(contexts);
  declare(config, "merge", "Merge the contexts of other files into this one", "<file>...", 1,
          kj::maxValue, runMerge);
  declare(config, "rename", "Give a context another name", "<old> <new>", 2, 2, runRename).details =
      "The current context stays the current one. A name that is in use is refused.";
  auto& remove = declare(config, "remove", "Remove contexts", "<context>", 1, 1, runRemove);
  remove.details =
      "<context> is a name, or a pattern with *, ? and [...], which the shell must not expand: "
      "'test-*'. Asks before each removal. The current context is never removed. With a context "
      "its key is gone, which may be the only one for the cluster.";
  remove.flag({.name = "noconfirm", .letter = "y", .help = "do not ask"});
  remove.flag({.name = "dry-run", .help = "remove nothing; list what would be removed"});
  auto& info =
      declare(config, "info",
              "Show the current context: endpoints, nodes, roles, expiry of the certificate", "", 0,
              0, runInfo);
  info.flag({.name = "output",
             .letter = "o",
             .kind = FlagKind::kText,
             .fallback = "text",
             .help = "output format; table is the same as text",
             .choices = {"text", "table", "yaml", "json"}});
  auto& add = declare(config, "add", "Add or replace a context", "<context>", 1, 1, runAdd);
  add.flag({.name = "ca",
            .kind = FlagKind::kText,
            .help = "file with the cluster's CA certificate",
            .required = true});
  add.flag({.name = "crt",
            .kind = FlagKind::kText,
            .help = "file with the client's certificate",
            .required = true});
  add.flag({.name = "key",
            .kind = FlagKind::kText,
            .help = "file with the client's key",
            .required = true});
  auto& generate =
      declare(config, "generate", "Renamed to \"gen config\"", "", 0, kj::maxValue, runGenerate);
  generate.hidden = generate.anyFlags = true;
}

}  // namespace talos::talosctl
