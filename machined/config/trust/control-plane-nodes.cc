#include "machined/config/trust/control-plane-nodes.h"

#include <algorithm>

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/lines.h"
#include "common/base/log.h"
#include "common/config/config.h"
#include "common/net/text-values.h"
#include "common/text/texts.h"
#include "machined/config/trust/stored-names.h"
#include "rpc/etcd-resources.capnp.h"
#include "rpc/kubernetes-resources.capnp.h"

namespace talos::machined {
namespace {

constexpr size_t kMostFile = 256u << 10;

// Another program's record may contain anything.
void addHost(kj::Vector<kj::String>& hosts, kj::StringPtr text) {
  if (config::isHost(text)) addOnce(hosts, kj::str(text));
}

// Returns true if Kubernetes has listed its nodes.
bool addNodes(kj::Vector<kj::String>& hosts, Store& store) {
  bool listed = false;
  for (auto member : store.list<rpc::MemberSpec>()) {
    if (!isControlPlaneMember(member)) continue;
    listed = true;
    addHost(hosts, member.id());
    addHost(hosts, member.getHostname());
    for (auto address : member.getAddresses()) addHost(hosts, address);
  }
  return listed;
}

void addMembersOfEtcd(kj::Vector<kj::String>& hosts, Store& store) {
  for (auto member : store.list<rpc::EtcdMemberSpec>()) {
    addHost(hosts, member.getName());
    for (auto urls : {member.getPeerUrls(), member.getClientUrls()}) {
      for (auto url : urls) {
        auto endpoint = config::parseEndpoint(url);
        if (endpoint.problem.size() == 0) addHost(hosts, endpoint.value.host);
      }
    }
  }
}

// Throws InvalidArgument if the file is not such a list.
kj::Vector<kj::String> readHosts(kj::StringPtr file) {
  kj::Vector<kj::String> hosts;
  KJ_IF_MAYBE (text, tryReadFile(file, kMostFile)) {
    for (auto& line : linesOf(*text)) {
      if (!config::isHost(line)) {
        fail(ErrorKind::kInvalidArgument,
             kj::str("line ", hosts.size() + 1, " is neither a name nor an address"));
      }
      hosts.add(kj::mv(line));
    }
    if (hosts.empty()) fail(ErrorKind::kInvalidArgument, "it is empty");
  }
  return hosts;
}

}  // namespace

kj::Promise<kj::Maybe<kj::ArrayPtr<const kj::String>>> ControlPlaneNodes::get(Store& store) {
  if (!loaded && deps.isMounted()) co_await load();
  kj::Vector<kj::String> hosts;
  bool listed = addNodes(hosts, store);
  addMembersOfEtcd(hosts, store);
  if (!listed) {
    for (auto& host : known) addOnce(hosts, kj::str(host));
  }
  std::sort(hosts.begin(), hosts.end());
  if (!std::equal(hosts.begin(), hosts.end(), known.begin(), known.end())) {
    known = kj::mv(hosts);
    stored = false;
  }
  if (!stored && loaded && deps.isMounted()) co_await keep();
  if (known.empty()) co_return nullptr;
  co_return known.asPtr().asConst();
}

kj::Promise<void> ControlPlaneNodes::load() {
  kj::Maybe<kj::String> error;
  co_await deps.uv.blocking([file = kj::str(deps.file)] { return readHosts(file); })
      .then(
          [&](kj::Vector<kj::String>&& read) {
            for (auto& host : read) addOnce(known, kj::mv(host));
          },
          [&](kj::Exception&& e) { error = messageOf(e); });
  loaded = true;
  KJ_IF_MAYBE (e, error) {
    log::warn(
        "cannot read the list of control-plane nodes; trustd signs no names until etcd or "
        "Kubernetes answers",
        {{"file", deps.file}, {"error", *e}});
  }
}

kj::Promise<void> ControlPlaneNodes::keep() {
  auto text = kj::str(kj::strArray(known, "\n"), "\n");
  kj::Maybe<kj::String> error;
  co_await deps.uv
      .blocking([file = kj::str(deps.file), text = kj::mv(text)] {
        writeFileAtomically(file, text, 0600);
      })
      .catch_([&](kj::Exception&& e) { error = messageOf(e); });
  stored = true;  // a failed write is repeated with the next change
  KJ_IF_MAYBE (e, error) {
    log::warn("cannot write the list of control-plane nodes; trying again when it changes",
              {{"file", deps.file}, {"error", *e}});
  }
}

}  // namespace talos::machined
