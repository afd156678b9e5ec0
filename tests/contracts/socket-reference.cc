#include "tests/contracts/socket-reference.h"

#include <capnp/dynamic.h>

#include "common/base/annotation.h"
#include "common/base/node-layout.h"
#include "common/wire/roles.h"
#include "machined/api/node-server.h"
#include "machined/brain/daemon-table.h"
#include "machined/brain/held-sockets.h"
#include "machined/resources/store-server.h"
#include "rpc/backups.capnp.h"
#include "rpc/trust.capnp.h"
#include "tests/contracts/socket-examples.h"

namespace talos::contracts {
namespace {

constexpr kj::StringPtr kMachined = "machined"_kj, kApid = "apid"_kj;
constexpr unsigned kNobody = 65'534;  // a uid that no program of a node has

// A socket, its listener, and the interface that a connection begins with.
struct Listener {
  kj::StringPtr service;
  unsigned uid;  // of the service
  kj::String address;
  unsigned mode;   // 0: TCP
  unsigned owner;  // a uid
  capnp::InterfaceSchema bootstrap;
  std::set<uint64_t> owned;  // interfaces that its page describes
};

capnp::InterfaceSchema bootstrapOf(kj::StringPtr service) {
  if (service == kApid) return capnp::Schema::from<rpc::Cluster>();
  if (service == "trustd") return capnp::Schema::from<rpc::Trust>();
  if (service == "networkd") return capnp::Schema::from<rpc::Networkd>();
  if (service == "etcd-supervisor") return capnp::Schema::from<rpc::EtcdSupervisor>();
  if (service == "backupd") return capnp::Schema::from<rpc::Backupd>();
  if (service == "kubed") return capnp::Schema::from<rpc::Kubed>();
  KJ_FAIL_REQUIRE("which interface does this service serve?", service);
}

kj::Vector<Listener> listeners() {
  kj::Vector<Listener> all;
  all.add(Listener{kMachined,
                   0,
                   kj::str(kMachinedSocket),
                   machined::kMachinedSocketMode,
                   0,
                   capnp::Schema::from<rpc::Machined>(),
                   {}});
  for (auto& daemon : machined::daemons()) {
    auto& listen = daemon.listen;
    if (listen.port == 0 && listen.socket == nullptr) continue;
    if (daemon.id == "registryd") continue;  // speaks HTTP
    auto address = listen.port == 0 ? kj::str(listen.socket) : kj::str("TCP ", listen.port);
    all.add(Listener{daemon.id,
                     daemon.uid,
                     kj::mv(address),
                     listen.mode,
                     listen.owner,
                     bootstrapOf(daemon.id),
                     {}});
  }
  return all;
}

// --- interfaces
// ------------------------------------------------------------------------------------

using Found = std::map<uint64_t, capnp::InterfaceSchema>;

struct Reach {
  bool params = false;  // those that callers pass in, too
  bool direct = false;  // without what those give in turn
  Found found;
  std::set<uint64_t> structs;

  void add(capnp::InterfaceSchema schema) {
    if (!found.emplace(schema.getProto().getId(), schema).second || direct) return;
    for (auto parent : schema.getSuperclasses()) add(parent);
    for (auto method : schema.getMethods()) {
      add(method.getResultType());
      if (params) add(method.getParamType());
    }
  }
  void add(capnp::StructSchema schema) {
    if (!structs.insert(schema.getProto().getId()).second) return;
    for (auto field : schema.getFields()) {
      auto type = field.getType();
      while (type.isList()) type = type.asList().getElementType();
      if (type.isInterface()) add(type.asInterface());
      if (type.isStruct()) add(type.asStruct());
    }
  }
};

Found reachedFrom(const Listener& socket, bool params) {
  Reach reach{.params = params, .found = {}, .structs = {}};
  reach.add(socket.bootstrap);
  return kj::mv(reach.found);
}

// Each interface is described once: by the program that serves it, else with the API.
void share(kj::Vector<Listener>& all) {
  std::set<uint64_t> taken;
  auto take = [&](Listener& socket, bool params) {
    for (auto& [id, schema] : reachedFrom(socket, params)) {
      if (taken.insert(id).second) socket.owned.insert(id);
    }
  };
  auto takeAll = [&](bool params, auto&& which) {
    for (auto& socket : all) {
      if (which(socket.service)) take(socket, params);
    }
  };
  // machined serves most of the API, which is described where its clients find it.
  takeAll(false, [](kj::StringPtr service) { return service != kMachined && service != kApid; });
  takeAll(false, [](kj::StringPtr service) { return service == kApid; });
  takeAll(true, [](kj::StringPtr service) { return service == kApid; });
  takeAll(true, [](kj::StringPtr) { return true; });
}

// --- text
// --------------------------------------------------------------------------------------------

kj::String nameOf(capnp::Type type) {
  using Which = capnp::schema::Type;
  if (type.isList()) return kj::str("List(", nameOf(type.asList().getElementType()), ")");
  if (type.isStruct()) return kj::str(type.asStruct().getShortDisplayName());
  if (type.isInterface()) return kj::str(type.asInterface().getShortDisplayName());
  if (type.isEnum()) return kj::str(type.asEnum().getShortDisplayName());
  switch (type.which()) {
    case Which::VOID:
      return kj::str("Void");
    case Which::BOOL:
      return kj::str("Bool");
    case Which::TEXT:
      return kj::str("Text");
    case Which::DATA:
      return kj::str("Data");
    case Which::ANY_POINTER:
      return kj::str("AnyPointer");
    case Which::FLOAT32:
    case Which::FLOAT64:
      return kj::str("Float", type.which() == Which::FLOAT32 ? 32 : 64);
    default: {
      unsigned kind = unsigned(type.which()) - unsigned(Which::INT8);
      return kj::str(kind < 4 ? "Int" : "UInt", 8u << (kind % 4));
    }
  }
}

// "(id :Text)", "stream", or the name of the struct.
kj::String listOf(capnp::StructSchema schema) {
  if (schema.getProto().getScopeId() != 0) {
    auto name = schema.getShortDisplayName();
    return name == "StreamResult" ? kj::str("stream") : kj::str(name);
  }
  auto fields = KJ_MAP(field, schema.getFields()) {
    return kj::str(field.getProto().getName(), " :", nameOf(field.getType()));
  };
  return kj::str("(", kj::strArray(fields, ", "), ")");
}

kj::String signatureOf(capnp::InterfaceSchema::Method method) {
  auto results = method.getResultType();
  bool nothing = results.getProto().getScopeId() == 0 && results.getFields().size() == 0;
  return kj::str("`", method.getProto().getName(), listOf(method.getParamType()), "`",
                 nothing ? kj::String() : kj::str(" → `", listOf(results), "`"));
}

kj::String cell(kj::StringPtr text) {
  kj::Vector<char> out;
  for (char c : text) {
    if (c == '|' || c == '<') out.add('\\');
    out.add(c);
  }
  return kj::heapString(out);
}

kj::String errorsOf(kj::StringPtr comment) {
  kj::Vector<kj::String> names;
  for (auto kind : errorsNamedIn(comment)) names.add(kj::str(talos::nameOf(kind)));
  return kj::strArray(names, ", ");
}

// --- callers
// -----------------------------------------------------------------------------------------

// "root", "apid", or both programs of a shared uid.
kj::String serviceOf(unsigned uid) {
  if (uid == 0) return kj::str("root");
  kj::Vector<kj::StringPtr> names;
  for (auto& daemon : machined::daemons()) {
    if (daemon.uid == uid) names.add(daemon.id);
  }
  return kj::strArray(names, "/");
}

std::set<unsigned> uids() {
  std::set<unsigned> all = {0};
  for (auto& daemon : machined::daemons()) all.insert(daemon.uid);
  return all;
}

// Asked of the server itself: a call of each method for each uid of a node.
class Callers {
 public:
  explicit Callers(kj::WaitScope& scope) : scope(scope) {}

  kj::String of(capnp::InterfaceSchema::Method method) {
    if (accepts(kNobody, method)) return kj::str("all");
    kj::Vector<kj::String> names;
    for (auto uid : uids()) {
      if (accepts(uid, method)) names.add(serviceOf(uid));
    }
    return kj::strArray(names, ", ");
  }

 private:
  kj::WaitScope& scope;
  Registry registry;
  machined::Store store{registry, kj::nullClock()};

  bool accepts(unsigned uid, capnp::InterfaceSchema::Method method) {
    rpc::Node::Client node = KJ_EXCEPTION(DISCONNECTED, "no node here");
    capnp::DynamicCapability::Client machined = machined::serveMachined(
        UnixPeer{1, uid, uid}, node, node, machined::serveStore(store, uid), [](auto) {},
        [](auto) {}, KJ_EXCEPTION(DISCONNECTED, "no logs here"));
    auto failure = kj::runCatchingExceptions(
        [&] { machined.newRequest(method).send().ignoreResult().wait(scope); });
    KJ_IF_MAYBE (e, failure) {
      KJ_REQUIRE(kindOf(*e) == ErrorKind::kPermissionDenied, *e);
      return false;
    }
    return true;
  }
};

kj::String shortType(kj::StringPtr type) {
  return kj::str(type.slice(0, type.findFirst('.').orDefault(type.size())));
}

kj::String storeRules() {
  kj::Vector<kj::String> lines;
  lines.add(kj::str(
      "| uid of | Reads | Reads and writes |\n|---|---|---|\n| root | all types | all types |"));
  Registry registry;
  for (auto& links : machined::Access::linksOfDaemons(registry)) {
    auto reads = KJ_MAP(input, links.reads) {
      return kj::str(shortType(input.type), input.id.size() > 0 ? "/" : "", input.id);
    };
    auto writes = KJ_MAP(type, links.writes) {
      return shortType(type);
    };
    lines.add(kj::str("| ", links.name, " | ", kj::strArray(reads, ", "), " | ",
                      kj::strArray(writes, ", "), " |"));
  }
  machined::Quota quota;
  lines.add(kj::str("| any other | none | none |\n\nA uid other than root keeps at most ",
                    quota.records, " records and ", quota.bytes >> 20,
                    " MiB of each type that it writes."));
  return kj::str("The store that `store` returns is limited to these resource types:\n\n",
                 kj::strArray(lines, "\n"), "\n\n");
}

// --- pages
// -------------------------------------------------------------------------------------------

class Pages {
 public:
  Pages(kj::WaitScope& scope, const SchemaComments& comments)
      : comments(comments), callers(scope), rules(capnp::Schema::from<rpc::Cluster>()) {
    share(all);
    for (auto& rule : rules.all()) {
      std::string method = rule.method.cStr();
      byMethod.emplace(kj::mv(method), kj::mv(rule));
    }
  }

  kj::Vector<Page> write() {
    kj::Vector<Page> pages;
    pages.add(Page{kj::str("README.md"), overview()});
    for (auto& socket : all) pages.add(Page{fileOf(socket), pageOf(socket)});
    return pages;
  }

 private:
  const SchemaComments& comments;
  Callers callers;
  Rules rules;
  kj::Vector<Listener> all = listeners();
  std::map<std::string, Rules::Rule> byMethod;

  static kj::String fileOf(const Listener& socket) { return kj::str(socket.service, ".md"); }

  static kj::String whoConnects(const Listener& socket) {
    if (socket.service == kApid)
      return kj::str("clients with a certificate of machine.ca; each method has a role");
    if (socket.mode == 0)
      return kj::str(
          "any machine; each call needs the token of the cluster, or a certificate to renew");
    if (socket.owner == kEtcdUid) return kj::str("etcd-supervisor");
    bool open = (socket.mode & 0006) != 0;
    return kj::str(open ? "all programs of the node; each method checks the uid"
                        : "root: machined");
  }
  static kj::String ownerOf(const Listener& socket) {
    return socket.owner == 0 ? kj::str("root") : kj::str("uid ", socket.owner);
  }
  static kj::String octal(unsigned mode) {
    return kj::str("0", mode >> 6 & 7, mode >> 3 & 7, mode & 7);
  }

  kj::String overview() const {
    kj::Vector<kj::String> lines;
    for (auto& socket : all) {
      lines.add(kj::str(
          "| [", socket.address, "](", fileOf(socket), ") | ", socket.service, " (uid ", socket.uid,
          ") | ",
          socket.mode == 0 ? kj::str("") : kj::str(ownerOf(socket), ", ", octal(socket.mode)),
          " | ", whoConnects(socket), " | `", socket.bootstrap.getShortDisplayName(), "` |"));
    }
    return kj::str(
        "# Sockets of a node\n\nGenerated from `rpc/`, the service table and the servers "
        "(`make docs`). Cap'n Proto RPC on all of them, over TLS 1.3 on the TCP ports. `talosctl "
        "debug "
        "call` calls any method of a Unix socket, on a local cluster.\n\n"
        "| Socket | Listens | Owner, mode | Who may call | Begins with |\n|---|---|---|---|---|\n",
        kj::strArray(lines, "\n"),
        "\n\nmachined makes each socket once, and process 1 holds it: a caller that connects while "
        "the program restarts waits. Calls on a connection that ends fail as Unavailable.\n\n"
        "An error has a kind and a message. The pages list the kinds that the schema names for a "
        "method; each method can also fail with these:\n\n| Kind | When |\n|---|---|\n"
        "| PermissionDenied | the caller's role or uid does not allow the call |\n"
        "| Unauthenticated, Unimplemented | over TCP 50000 without a certificate: "
        "[trust.md](../trust.md) |\n"
        "| Unavailable | the program that serves the method cannot be reached |\n"
        "| Unimplemented | the other side is older and does not know the method |\n"
        "| Internal | any other error: a defect |\n");
  }

  kj::String pageOf(const Listener& socket) {
    kj::Vector<kj::String> parts;
    parts.add(kj::str(
        "# ", socket.address, "\n\nGenerated: see [README.md](README.md).\n\n| | |\n|---|---|\n",
        "| listens | ", socket.service, ", uid ", socket.uid, " |\n",
        socket.mode == 0
            ? kj::String()
            : kj::str("| owner, mode | ", ownerOf(socket), ", ", octal(socket.mode), " |\n"),
        "| may call | ", whoConnects(socket), " |\n| begins with | `",
        socket.bootstrap.getShortDisplayName(), "` |\n\n"));
    auto reached = reachedFrom(socket, true);
    parts.add(interface(socket, socket.bootstrap));
    std::map<std::string, capnp::InterfaceSchema> byName;
    kj::Vector<kj::String> elsewhere;
    for (auto& [id, schema] : reached) {
      if (schema == socket.bootstrap || !mentions(socket, schema)) continue;
      byName.emplace(schema.getShortDisplayName().cStr(), schema);
    }
    for (auto& [name, schema] : byName) {
      if (socket.owned.count(schema.getProto().getId()) > 0) {
        parts.add(interface(socket, schema));
      } else {
        elsewhere.add(linkTo(schema));
      }
    }
    if (!elsewhere.empty()) {
      parts.add(kj::str("Elsewhere: ", kj::strArray(elsewhere, ", "), ".\n\n"));
    }
    if (socket.service == kApid) {
      parts.add(kj::str("† also without a certificate, while the node has no config.\n\n"));
    }
    parts.add(kj::str("## Example\n\n", exampleOf(socket.bootstrap)));
    return kj::strArray(parts, "");
  }

  // True if a method on this page gives or takes it.
  static bool mentions(const Listener& socket, capnp::InterfaceSchema schema) {
    auto id = schema.getProto().getId();
    if (socket.owned.count(id) > 0) return true;
    for (auto& [other, owner] : reachedFrom(socket, true)) {
      if (socket.owned.count(other) == 0 && !(owner == socket.bootstrap)) continue;
      for (auto method : owner.getMethods()) {
        Reach direct{.direct = true, .found = {}, .structs = {}};
        direct.add(method.getParamType());
        direct.add(method.getResultType());
        if (direct.found.count(id) > 0) return true;
      }
    }
    return false;
  }

  kj::String linkTo(capnp::InterfaceSchema schema) const {
    for (auto& socket : all) {
      if (socket.owned.count(schema.getProto().getId()) == 0) continue;
      return kj::str("[`", schema.getShortDisplayName(), "`](", fileOf(socket), ")");
    }
    KJ_FAIL_REQUIRE("no page describes this interface", schema.getShortDisplayName());
  }

  kj::String interface(const Listener& socket, capnp::InterfaceSchema schema) {
    bool first = schema == socket.bootstrap, asked = first && socket.service == kMachined;
    auto comment = comments.of(schema);
    kj::Vector<kj::String> rows;
    bool roles = false;
    for (auto method : schema.getMethods()) roles |= roleOf(schema, method).size() > 0;
    for (auto method : schema.getMethods()) {
      auto text = comments.of(method);
      rows.add(kj::str("| ", signatureOf(method), " | ",
                       asked   ? kj::str(callers.of(method), " | ")
                       : roles ? kj::str(roleOf(schema, method), " | ")
                               : kj::String(),
                       cell(text), " | ", errorsOf(text), " |"));
    }
    for (auto parent : schema.getSuperclasses()) {
      rows.add(kj::str("| those of ", linkTo(parent), " | ", roles ? " | " : "", " | |"));
    }
    auto middle = asked ? "Callers | "_kj : roles ? "Least role | "_kj : ""_kj;
    return kj::str(
        "## ", schema.getShortDisplayName(), "\n\n", cell(comment),
        comment.size() > 0 ? "\n\n" : "",
        rows.empty()
            ? kj::str("No methods: a caller holds it, and drops it.\n\n")
            : kj::str("| Method | ", middle, "Meaning | Errors |\n|---|---|---|",
                      middle.size() > 0 ? "---|\n" : "\n", kj::strArray(rows, "\n"), "\n\n"),
        schema == capnp::Schema::from<rpc::Store>() ? storeRules() : kj::String());
  }

  // Returns the role that a method needs, if callers get its interface; empty for interfaces that
  // callers pass in.
  kj::String roleOf(capnp::InterfaceSchema schema, capnp::InterfaceSchema::Method method) const {
    if (!annotation::has(method, annotation::kAllow) && !isGiven(schema)) return kj::String();
    auto rule =
        byMethod.find(kj::str(shortNameOf(schema), ".", method.getProto().getName()).cStr());
    if (rule == byMethod.end()) return kj::String();
    return kj::str("`", rule->second.needed, "`", rule->second.maintenance ? " †" : "");
  }
  bool isGiven(capnp::InterfaceSchema schema) const {
    for (auto& socket : all) {
      if (socket.service != kApid) continue;
      return reachedFrom(socket, false).count(schema.getProto().getId()) > 0;
    }
    return false;
  }
  static kj::StringPtr shortNameOf(capnp::InterfaceSchema schema) {
    kj::StringPtr name = schema.getProto().getDisplayName();
    return name.slice(schema.getProto().getDisplayNamePrefixLength());
  }
};

}  // namespace

kj::Vector<Page> socketPages(kj::WaitScope& scope, const SchemaComments& comments) {
  return Pages(scope, comments).write();
}

}  // namespace talos::contracts
