// A whole machine's kernel in memory, for tests, with hardware that is plugged and pulled, routing
// rules and neighbours made by other programs, and monitors of its changes.
#pragma once

#include <kj/debug.h>
#include <kj/map.h>
#include <net/if.h>
#include <net/if_arp.h>

#include <utility>
#include <vector>

#include "common/base/error.h"
#include "common/base/signal.h"
#include "common/netlink/model/netlink-model.h"

namespace talos::netlink {

class TestKernel : public ModelKernel {
 public:
  // Starts with a loopback link, down, as in a new network namespace.
  explicit TestKernel(bool ipv6 = true) : ModelKernel(loopback(), {}, {}, ipv6) {
    for (int family : {AF_INET, AF_INET6}) {
      if (family == AF_INET6 && !ipv6) break;
      put(Rule{.family = family, .table = RT_TABLE_LOCAL, .protocol = RTPROT_KERNEL});
      put(Rule{
          .family = family, .priority = 32766, .table = RT_TABLE_MAIN, .protocol = RTPROT_KERNEL});
      if (family == AF_INET6) break;
      put(Rule{.family = family,
               .priority = 32767,
               .table = RT_TABLE_DEFAULT,
               .protocol = RTPROT_KERNEL});
    }
  }

  // Plugs hardware in (down, with carrier), unplugs it, or removes its carrier.
  unsigned plug(kj::StringPtr name) {
    unsigned index = make(name, "");
    auto& link = device(index)->link;
    link.permanentAddress = kj::heapArray<kj::byte>(link.hardwareAddress);
    return index;
  }
  using ModelKernel::setCarrier;
  using ModelKernel::unplug;
  void rename(unsigned index, kj::StringPtr name) {
    device(index)->link.name = kj::str(name);
    notify({.links = true});
  }
  void readdress(unsigned index, kj::Array<kj::byte> hardwareAddress) {
    device(index)->link.hardwareAddress = kj::mv(hardwareAddress);
    notify({.links = true});
  }
  // Moves a peer of WireGuard to `to` with a handshake at this time; the kernel reports neither.
  void roam(unsigned index, const WireguardKey& peer, Endpoint to, int64_t spoke) {
    for (auto& there : device(index)->wireguard.peers) {
      if (there.publicKey != peer) continue;
      there.endpoint = to;
      there.lastHandshake = spoke;
    }
  }
  // Sets the errno of changes that this link does not accept, or 0 again. The link can still lose
  // what it has.
  void refuse(unsigned index, int code) {
    refused.upsert(index, code, [](int& there, int now) { there = now; });
  }

  // Changes the next `times` lists of links while they are read.
  void disturb(unsigned times) { disturbed = times; }
  unsigned stillDisturbed() const { return disturbed; }
  kj::Vector<Link> links() override {
    if (disturbed > 0) {
      --disturbed;
      fail(ErrorKind::kUnavailable, "list links: the list changed during each reading");
    }
    return ModelKernel::links();
  }

  // Adds a rule after the last one of its family and priority.
  void put(Rule rule) {
    ruleList.put(kj::mv(rule));
    notify({.rules = true});
  }
  // Adds a neighbour in the place of the one with its link and address.
  void put(Neighbour neighbour) {
    KJ_DEFER(notify({.neighbours = true}));
    for (auto& there : neighbourList) {
      if (there.link == neighbour.link && there.address == neighbour.address) {
        there = kj::mv(neighbour);
        return;
      }
    }
    neighbourList.push_back(kj::mv(neighbour));
  }
  void forgetNeighbours() {
    neighbourList.clear();
    notify({.neighbours = true});
  }
  kj::Vector<Neighbour> neighbours() override { return copy(neighbourList); }

  kj::Vector<kj::Maybe<Failure>> apply(kj::ArrayPtr<const Change> changes) override {
    changeCount += changes.size();
    kj::Vector<kj::Maybe<Failure>> result;
    for (auto& change : changes) {
      auto code = refused.find(linkOf(change)).orDefault(0);
      bool deletes = change.is<DeleteAddress>() || change.is<DeleteRoute>() ||
                     change.is<DeleteLink>() || change.is<DeleteRule>();
      if (code == 0 || deletes) {
        result.add(kj::mv(ModelKernel::apply(kj::arrayPtr(&change, 1))[0]));
      } else {
        result.add(failureOf(change, code, ""));
      }
    }
    return result;
  }
  // Returns the number of changes requested since the last call.
  size_t takeChangeCount() { return std::exchange(changeCount, 0); }

  // Returns a monitor of this kernel, which must outlive the monitor.
  kj::Own<Monitor> monitor(Subjects subjects = {}) {
    return kj::heap<TestMonitor>(*this, subjects);
  }
  // Reports lost events in the next notice of the monitors.
  void overrun() { notify({.overrun = true}); }

 private:
  class TestMonitor final : public Monitor {
   public:
    TestMonitor(TestKernel& kernel, Subjects subjects) : kernel(kernel), subjects(subjects) {
      kernel.monitors.push_back(this);
    }
    ~TestMonitor() noexcept(false) { std::erase(kernel.monitors, this); }

    kj::Promise<Notice> next() override {
      if (pending.any()) return take();
      // another reader may have taken the notice
      return changed.wait().then([this] { return next(); });
    }
    Notice take() override { return std::exchange(pending, {}); }
    void listen(bool on) override { listening = on; }

    void report(Notice notice) {
      if (!listening) return;
      notice.links &= subjects.links;
      notice.addresses &= subjects.addresses;
      notice.routes &= subjects.routes;
      notice.rules &= subjects.rules;
      notice.neighbours &= subjects.neighbours;
      if (!notice.any()) return;
      pending |= notice;
      changed.raise();
    }

   private:
    TestKernel& kernel;
    Subjects subjects;
    Notice pending;
    bool listening = true;
    Signal changed;
  };

  kj::HashMap<unsigned, int> refused;
  std::vector<Neighbour> neighbourList;
  std::vector<TestMonitor*> monitors;
  size_t changeCount = 0;
  unsigned disturbed = 0;

  void notify(Notice notice) override {
    for (auto monitor : monitors) monitor->report(notice);
  }
  template <typename T>
  static kj::Vector<T> copy(const std::vector<T>& list) {
    kj::Vector<T> result;
    for (auto& item : list) result.add(item);
    return result;
  }
  static kj::Vector<Link> loopback() {
    Link lo;
    lo.index = 1;
    lo.name = kj::str("lo");
    lo.type = ARPHRD_LOOPBACK;
    lo.flags = IFF_LOOPBACK;
    lo.mtu = 65536;
    lo.carrier = true;
    kj::Vector<Link> links;
    links.add(kj::mv(lo));
    return links;
  }
};

}  // namespace talos::netlink
