// Tests that the remedy follows from the evidence: for each fault that diagnose knows, observations
// that show it, the cause that is named, and the remedy. The second half of the table is in
// kubernetes-remedies-test.cc.
#include "talosctl/diagnose/test-remedies.h"

#include <regex>
#include <set>

namespace talos::talosctl {
namespace {

// --- the machine

std::vector<RemedyCase> machineRemedies() {
  return {
      {"client-certificate",
       "{now: 1700000000000000000, clientNotBefore: 1, clientNotAfter: 1650000000}",
       "the client certificate of the talosconfig has expired", "gen config --with-secrets"},
      {"client-certificate",
       "{now: 1500000000000000000, clientNotBefore: 1600000000, clientNotAfter: 1650000000, "
       "endpoints: [{host: a, error: tlsv1 alert bad certificate}]}",
       "is not yet valid", "compare the clock of this host"},
      {"endpoint-unreachable",
       "endpoints: [{host: a, error: stage maintenance, maintenance: true}]", "maintenance mode",
       "talosctl apply-config --insecure -n a -f <its config>"},
      {"endpoint-unreachable",
       "{clientCaHash: 'sha256:12', endpoints: [{host: a, error: 'TLS handshake with a: "
       "self-signed "
       "certificate in certificate chain', contexts: [b]}]}",
       "its context b is of that cluster", "talosctl config context b"},
      {"endpoint-unreachable",
       "{clientCaHash: 'sha256:12', endpoints: [{host: a, error: 'TLS handshake with a: "
       "self-signed "
       "certificate in certificate chain'}]}",
       "is of another CA than that of the talosconfig",
       "config merge <the talosconfig of that cluster>"},
      // TLS 1.3 tells a client only after the handshake that its certificate was refused.
      {"endpoint-unreachable", "endpoints: [{host: a, error: 'a:50000: tlsv1 alert unknown ca'}]",
       "the endpoint a does not trust the client certificate", "gen config --with-secrets <its"},
      {"endpoint-unreachable",
       "endpoints: [{host: a, error: 'TLS handshake with a: certificate has expired: it is valid "
       "from "
       "2020-01-01 until 2021-01-01, and the clock here shows 2026-11-22'}]",
       "has expired or is not yet valid, or a clock is wrong",
       "compare the clocks of this host and of a"},
      {"endpoint-unreachable",
       "endpoints: [{host: a, error: 'TLS handshake with a: hostname mismatch'}]",
       "does not have this name", "machine.certSANs"},
      {"endpoint-unreachable",
       "endpoints: [{host: a, error: 'cannot resolve \"a\": Domain name not found'}]",
       "cannot resolve the name of endpoint a", "correct the name's record in the DNS"},
      {"endpoint-unreachable", "endpoints: [{host: a, error: 'cannot resolve \"a\" within 5 s'}]",
       "no name server answers", "correct the name servers of this host"},
      {"endpoint-unreachable", "endpoints: [{host: a, error: 'a: Connection refused'}]",
       "nothing listens on its port 50000", "look at the console of a"},
      {"endpoint-unreachable", "endpoints: [{host: a, error: 'a: Connection reset by peer'}]",
       "closes each connection", "without a forwarder in between"},
      {"endpoint-unreachable",
       "endpoints: [{host: a, error: 'TLS handshake with a: wrong version number'}]",
       "does not speak TLS", "talosctl config endpoint <address of a control-plane node>"},
      {"endpoint-unreachable", "endpoints: [{host: a, error: 'a: Network is unreachable'}]",
       "this host has no route", "ip route get a"},
      {"endpoint-unreachable", "endpoints: [{host: a, error: no answer within 10s}]",
       "does not answer: it is down, or a firewall", "firewalls for TCP 50000"},
      {"node-down",
       "nodes: [{address: n, reach: silent, error: 'the endpoint w is a worker, which does not "
       "forward "
       "calls to n; use a control-plane node as the endpoint (talosctl -e)'}]",
       "the endpoint is a worker", "talosctl config endpoint <address of a control-plane node>"},
      {"node-down",
       "nodes: [{address: n, reach: silent, error: 'Machine.version needs the role os:reader; this "
       "caller has none'}]",
       "the role in the client certificate does not permit the call", "talosctl config info"},
      {"node-down",
       "nodes: [{address: n, reach: silent, error: 'cannot resolve \"n\": no such host'}]",
       "the node's name cannot be resolved", "talosctl get members"},
      {"node-down", "nodes: [{address: n, reach: silent, error: 'n:50000: Connection refused'}]",
       "its apid does not listen", "apid starts when the node has its config"},
      {"node-down", "nodes: [{address: n, reach: silent, error: 'n:50000: No route to host'}]",
       "the endpoint has no route to the node", "talosctl routes"},
      {"node-down", "nodes: [{address: n, reach: silent, error: no answer within 10s}]",
       "it is down, or cut off", "start it"},
      {"node-certificate",
       "nodes: [{address: n, reach: refused, error: 'n: tlsv1 alert unknown ca', contexts: [b]}]",
       "the context b of the talosconfig is of that cluster",
       "talosctl --context b -e n -n n reset"},
      {"node-certificate",
       "nodes: [{address: n, reach: refused, error: 'n: tlsv1 alert unknown ca'}]",
       "do not have the same CA", "-e n -n n get machineconfig    # compare machine.ca"},
      {"node-certificate",
       "nodes: [{address: n, reach: refused, error: 'n: certificate is not yet valid: it is valid "
       "from "
       "2027-01-01'}]",
       "has expired or is not yet valid, or a clock is wrong", "compare the clocks of both"},
      {"node-certificate",
       "nodes: [{address: n, reach: refused, error: 'TLS handshake with n: IP address mismatch'}]",
       "does not have the name or address", "call the node by one of its addresses"},
      {"maintenance", "nodes: [{address: n, reach: maintenance, error: stage maintenance}]",
       "the node has no config", "talosctl apply-config --insecure -n n -f <its config>"},
      {"volume",
       "nodes: [{address: n, volumes: [{label: EPHEMERAL, status: {phase: failed, errorMessage: "
       "'no "
       "key "
       "of the config opens /dev/vda6 (tried: static of slot 0)'}}]}]",
       "EPHEMERAL cannot be used: no key of the config opens it", "machine.systemDiskEncryption"},
      {"volume",
       "nodes: [{address: n, volumes: [{label: EPHEMERAL, status: {phase: failed, errorMessage: "
       "'/dev/vda6 is not empty, but has no readable file system; repair it'}}]}]",
       "EPHEMERAL cannot be used: it is not empty",
       "if nothing on it is needed: talosctl -n n reset --graceful=false "
       "--reboot --system-labels-to-wipe=EPHEMERAL"},
      {"volume",
       "nodes: [{address: n, volumes: [{label: STATE, status: {phase: failed, errorMessage: "
       "superblock "
       "is damaged}}]}]",
       "STATE cannot be used", "talosctl -n n dmesg"},
      {"boot",
       "nodes: [{address: n, status: {stage: failed, problems: ['userDisks: /dev/vdb is in "
       "use']}}]",
       "the boot has failed", "correct the cause, then reboot"},
      {"boot",
       "nodes: [{address: n, status: {problems: ['/var: the kernel has made it read-only']}}]",
       "reports a problem that stops it", "talosctl -n n logs machined    # and dmesg"},
      {"boot",
       "nodes: [{address: n, status: {problems: ['stored, but not in effect: machine.files[0] "
       "(/etc/x): no such file in the system']}}]",
       "could not carry out a part of its config",
       "talosctl -n n edit machineconfig --mode=reboot    # correct the entry, or remove it"},
      {"upgrade",
       "nodes: [{address: n, upgrade: {stage: failed, image: i:v2, reason: 'cannot pull "
       "\"i:v2\"'}}]",
       "the newest upgrade has failed",
       "talosctl -n n upgrade --image i:v2    # when its reason is gone"},
      {"upgrade",
       "nodes: [{address: n, upgrade: {stage: failed, image: i:v2, reason: it was not healthy "
       "within "
       "60 "
       "s}}]",
       "was given up on trial", "talosctl -n n logs machined --previous"},
      {"upgrade",
       "nodes: [{address: n, upgrade: {stage: failed, image: i:v2, reason: 'the system in slot B "
       "(v2) was started and ended before it was healthy'}}]",
       "was given up on trial", "talosctl -n n logs machined --previous"},
      // The same image would end in the same way again.
      {"upgrade",
       "nodes: [{address: n, upgrade: {stage: failed, image: i:v2, reason: 'the system in slot B "
       "(v2) did not come up: the boot loader could not load it'}}]",
       "the new system did not come up", "talosctl -n n upgrade --image <another image>"},
      {"upgrade", "nodes: [{address: n, upgrade: {stage: failed, reason: the disk is in use}}]",
       "the newest rollback has failed", "talosctl -n n rollback"},
      {"service-crash",
       "nodes: [{address: n, services: [{id: networkd, state: running, uptime: 2000000000, events: "
       "[{uptime: 1000000000, message: 'Process (PID 9) exited with signal SIGSEGV; crash report "
       "networkd-20261122T150110Z; restarting'}]}]}]",
       "the program of the service networkd has crashed",
       "talosctl -n n crashes networkd-20261122T150110Z --symbols <folder>"},
      {"hostname-duplicate", "nodes: [{address: a, hostname: m-1}, {address: b, hostname: m-1}]",
       "two nodes have the host name m-1", "rename the one that got the name later"},
      {"disk-full",
       "nodes: [{address: n, mounts: [{size: 10000000000, available: 4096, mountedOn: /var}]}]",
       "is full",
       "talosctl -n n usage /var --all --depth 3 --threshold 100000000    # what fills it; on a"},
      {"disk-full",
       "nodes: [{address: n, mounts: [{size: 10000000000, available: 400000000, mountedOn: "
       "/var}]}]",
       "is nearly full", "talosctl -n n usage /var"},
      {"firmware",
       "nodes: [{address: n, logs: [{id: kernel, lines: ['kern: err: [2026-11-22T15:01:10Z]: bnx2 "
       "0000:03:00.0: firmware: failed to load bnx2/rv2p.fw (-2)']}]}]",
       "Debian's package firmware-bnx2 has it", "make installer-image FIRMWARE=\"firmware-bnx2\""},
      {"firmware",
       "nodes: [{address: n, logs: [{id: kernel, lines: ['new 0000:04:00.0: Direct firmware load "
       "for "
       "x/y.bin failed with error -2']}]}]",
       "the package that has it is not known", "make installer-image TREE=<folder>"},
      {"landlock", "nodes: [{address: n, security: {landlock: 0, unrestricted: [files]}}]",
       "the kernel has no Landlock", "CONFIG_SECURITY_LANDLOCK"},
  };
}

// --- links, addresses, routes, names, time

std::vector<RemedyCase> networkRemedies() {
  return {
      {"link-carrier",
       "nodes: [{address: n, links: [{name: eth0, status: {type: ether}}], network: {addressReady: "
       "true, "
       "problems: ['eth0: no carrier: no cable']}}]",
       "eth0 has no carrier", "check the cable of eth0"},
      {"network-plan",
       "nodes: [{address: n, network: {addressReady: true, problems: ['eth7: there is no such "
       "link']}}]",
       "cannot set up the network of its config", "talosctl -n n edit machineconfig"},
      {"metadata-service",
       "nodes: [{address: n, metadataBlock: {problem: the kernel has no nf_tables}}]",
       "pods can reach the metadata service", "machine.features.podMetadataAccess"},
      {"firewall", "nodes: [{address: n, firewall: {problem: the kernel refused rules}}]",
       "does not have the rules of the node's firewall",
       "talosctl -n n logs networkd    # the kernel needs nf_tables"},
      {"firewall", "nodes: [{address: n, firewallSpecs: [firewall]}]",
       "networkd has not set the rules of the node's firewall", "talosctl -n n service networkd"},
      {"address",
       "nodes: [{address: n, network: {addressReady: true}, linkSpecs: [eth0], leases: [{id: "
       "dhcp4/eth0, "
       "operator: dhcp4, linkName: eth0, state: selecting}]}]",
       "no DHCP server has given eth0 an address", "start the DHCP server of the network of eth0"},
      {"address", "nodes: [{address: n, network: {addressReady: false}}]", "no address of its own",
       "machine.network.interfaces[]: addresses, or dhcp"},
      {"network-overlap",
       "nodes: [{address: n, facts: {podSubnets: [10.96.0.0/16], serviceSubnets: [10.96.0.0/12]}}]",
       "overlaps the network of services", "choose podSubnets that nothing else uses"},
      {"default-route",
       "nodes: [{address: n, routes: [{dst: 10.5.0.0/24}], time: {problem: '10.9.0.1: network is "
       "unreachable'}}]",
       "no default route", "machine.network.interfaces[].routes"},
      {"resolver",
       "nodes: [{address: n, resolvers: [10.5.0.1], time: {problem: 'cannot resolve "
       "\"ntp.example\" "
       "within "
       "5 s'}}]",
       "the name servers do not answer (10.5.0.1)", "make them reachable by UDP and TCP 53"},
      {"resolver",
       "nodes: [{address: n, resolvers: [], time: {problem: 'cannot resolve \"ntp.example\" within "
       "5 "
       "s'}}]",
       "the node has no name servers", "/machine/network/nameservers"},
      // Other name servers would not know the name either.
      {"resolver",
       "nodes: [{address: n, resolvers: [10.5.0.1], time: {problem: 'cannot resolve "
       "\"nosuch.example\": "
       "Domain name not found'}}]",
       "a name is not known to the name servers (10.5.0.1)", "machine.network.extraHostEntries"},
      {"time-sync", "nodes: [{address: n, time: {problem: '10.5.0.1: no answer within 1000 ms'}}]",
       "the clock is not synchronised",
       "\"/machine/time/servers\", \"value\": [\"<address>\"]}]'    # or make its time servers "
       "reachable"},
      {"time-sync",
       "nodes: [{address: n, time: {problem: 'the time servers disagree: 10.5.0.1 +3 s, 10.5.0.9 "
       "-2 "
       "s'}}]",
       "its time servers show different times",
       "\"/machine/time/servers\", \"value\": [\"<address>\"]}]'    # without the server that is"},
      {"time-sync", "nodes: [{address: n, time: {server: 10.5.0.1}}]",
       "no time server has answered yet", "talosctl -n n get timestatus -w"},
      {"clock",
       "nodes: [{address: a, clock: 1794608000000000000, clockAt: 1700000000000000000}, {address: "
       "b, "
       "clock: 1700000001000000000, clockAt: 1700000000000000000}]",
       "ahead of those of the others", "talosctl -n a time"},
      {"clock", "nodes: [{address: a, clock: 1794608000000000000, clockAt: 1700000000000000000}]",
       "one of the two is wrong", "talosctl -n a time"},
      {"clock",
       "nodes: [{address: a, clock: 1794608000000000000, clockAt: 1700000000000000000, time: "
       "{synced: true, server: 10.5.0.9}}, {address: b, clock: 1700000001000000000, clockAt: "
       "1700000000000000000}]",
       "ahead of those of the others; it follows the time server 10.5.0.9",
       "\"/machine/time/servers\", \"value\": [\"<address>\"]}]'    # if 10.5.0.9 shows the wrong"},
      {"clock",
       "nodes: [{address: a, clock: 1794608000000000000, clockAt: 1700000000000000000, time: "
       "{syncDisabled: true}}]",
       "ahead of that of this host; no time server sets it",
       "talosctl -n a patch machineconfig --mode=no-reboot -p '[{\"op\": \"add\", \"path\": "
       "\"/machine/time/disabled\", \"value\": false}]'"},
      {"clock",
       "nodes: [{address: a, clock: 1794608000000000000, clockAt: 1700000000000000000}, {address: "
       "b, "
       "clock: 1794608000000000000, clockAt: 1700000000000000000}]",
       "the clock of this host is", "set the clock of this host"},
  };
}

// --- trust

// A node without a certificate, whose apid reports this error.
std::string unverified(const std::string& error) {
  return "nodes: [{address: n, reach: unverified, services: [{id: apid, state: running, checked: "
         "true, "
         "health: {unknown: false, lastMessage: '(not authenticated) " +
         error + "'}}]}]";
}
// A node that still answers, and gets no new certificate.
std::string joins(const std::string& error) {
  return "nodes: [{address: n, joins: true, join: {message: '" + error + "'}}]";
}
// A control-plane node and a worker with these CAs.
std::string authorities(const std::string& key, const std::string& worker) {
  return "nodes: [{address: m, controlPlane: true, facts: {authorities: [{key: " + key +
         ", fingerprint: aa, notAfter: 9000000000}]}}, {address: n, facts: {authorities: [{key: " +
         key + ", notAfter: 9000000000, " + worker + "}]}}]";
}

std::vector<RemedyCase> trustRemedies() {
  return {
      {"authority-expired",
       "{now: 1700000000000000000, nodes: [{address: n, facts: {authorities: [{key: cluster.ca, "
       "notAfter: "
       "1600000000}]}}]}",
       "the CA of Kubernetes (cluster.ca) has expired", "make a new CA"},
      // A new CA would not be valid either.
      {"authority-expired",
       "{now: 1700000000000000000, nodes: [{address: n, facts: {authorities: [{key: machine.ca, "
       "notBefore: "
       "1800000000, notAfter: 1900000000}]}}]}",
       "the clock of the node is wrong", "talosctl -n n time"},
      {"authority-differs", authorities("machine.ca", "fingerprint: bb"),
       "the config is of another cluster", "copy machine.ca of m"},
      {"authority-differs", authorities("machine.ca", "fingerprint: bb, accepted: [aa]"),
       "a rotation of the CA is under way",
       "talosctl rotate-ca --kubernetes=false --dry-run=false"},
      {"authority-differs", authorities("cluster.etcd.ca", "fingerprint: bb, accepted: [aa]"),
       "a rotation of the CA is under way", "talosctl rotate-ca --etcd-ca --dry-run=false"},
      {"join", joins("10.5.0.2: wrong token; use machine.token of the control-plane nodes"),
       "its machine.token is not that of the control plane", "/machine/token"},
      {"join", unverified("10.5.0.2: wrong token; use machine.token of the control-plane nodes"),
       "its machine.token is not that of the control plane", "erase the node and start it with"},
      {"join", joins("10.5.0.2: too many failed requests from 10.5.0.3; retry in 2000 ms"),
       "its machine.token is not that of the control plane", "/machine/token"},
      {"join",
       joins("10.5.0.2: the join token k3x9qf was revoked at 2026-11-22T15:01:10Z; use a new one"),
       "it was used, has expired, or was revoked",
       "talosctl -n <control-plane node> token create    # then"},
      // The certificate in the message is no reason to distrust trustd.
      {"join",
       joins("10.5.0.2: the join token k3x9qf expired at 2026-11-22T15:01:10Z; use a new one (the "
             "present "
             "certificate renews nothing: certificate has expired)"),
       "it was used, has expired, or was revoked", "token create"},
      {"join",
       unverified("10.5.0.2: the join token k3x9qf was used by another node, or by this one before "
                  "it lost "
                  "its key, at 2026-11-22T15:01:10Z; use a new one"),
       "it was used, has expired, or was revoked",
       "erase the node and start it with this machine.token"},
      {"join",
       joins("10.5.0.2: the join token k3x9qf is for the host name worker-7; the request has the "
             "name "
             "worker-8"),
       "it is for another host name", "token create --hostname <host name of n>"},
      {"join",
       unverified(
           "10.5.0.2: the join token k3x9qf is for the host name worker-7; the request has none"),
       "it is for another host name", "erase the node and start it with this machine.token"},
      {"join", joins("10.5.0.2: cannot verify the join token: no answer within 4s; retry"),
       "cannot verify the join token", "talosctl -n <control-plane node> etcd members"},
      {"join", joins("the config has no machine.token, without which trustd signs nothing"),
       "lacks what it needs for its certificate", "machine.token, cluster.controlPlane.endpoint"},
      {"join",
       joins("10.5.0.2: the identity of trustd is not verified: unable to get local issuer "
             "certificate"),
       "do not trust each other", "compare machine.ca"},
      {"join", joins("10.5.0.2: certificate is not yet valid: it is valid from 2027-01-01"),
       "or a clock is wrong", "compare the clocks"},
      {"join",
       joins("10.5.0.2: the identity of trustd is not verified: its certificate is not that of a "
             "control-plane node; set cluster.controlPlane.endpoint"),
       "what answers on port 50001 is not a control-plane node", "cluster.trustd.endpoints"},
      // The node still has a certificate that has expired; the error comes after its times.
      {"join",
       joins("the certificate is valid from 2026-11-20 to 2026-11-21, but the clock shows "
             "2026-11-22; "
             "10.5.0.2: Connection refused; retry in 2 s"),
       "nothing listens on port 50001", "talosctl -n <control-plane node> service trustd"},
      {"join", joins("cannot resolve \"cp.example\": Domain name not found; retry in 2 s"),
       "the name of the control plane cannot be resolved", "correct cluster.controlPlane.endpoint"},
      {"join", joins("10.5.0.2: no answer within 10s; retry in 2 s"),
       "gets no certificate for its API from trustd: it does not answer",
       "make port 50001 of the control plane reachable"},
      {"join", joins("10.5.0.2: this node does not have the key of the CA yet; retry"),
       "the node has no certificate for its API yet",
       "talosctl -n <control-plane node> logs trustd"},
  };
}

// --- containerd, services, images

// A kubelet that reports this state and event.
std::string service(const std::string& id, const std::string& state, const std::string& event) {
  return "nodes: [{address: n, services: [{id: " + id + ", state: " + state +
         ", events: [{message: '" + event + "'}]}]}]";
}
std::string pull(const std::string& error) {
  return service("kubelet", "preparing", "cannot pull \"r.example/kubelet:v1\": " + error);
}
std::vector<RemedyCase> runtimeRemedies() {
  return {
      {"containerd",
       service("cri", "finished", "Service stopped: Process (PID 9) exited with status 0"),
       "containerd does not run: it has been stopped", "talosctl -n n service cri start"},
      {"containerd",
       service("cri", "waiting", "Process (PID 9) exited with status 1; restarting in 3 s"),
       "containerd does not run", "talosctl -n n logs cri"},
      {"service",
       service("timed", "finished", "Service stopped: Process (PID 9) exited with status 0"),
       "the service timed does not run: it has been stopped", "talosctl -n n service timed start"},
      {"service", service("timed", "failed", "cannot find /usr/bin/timed"),
       "the service timed cannot be started",
       "talosctl -n n service timed start    # when the cause in the evidence is gone"},
      {"service", service("timed", "waiting", "Waiting for network"),
       "the service timed is not up yet", "talosctl -n n service timed    # what it waits for"},
      {"service",
       "nodes: [{address: n, services: [{id: timed, state: running, checked: true, health: "
       "{unknown: "
       "false, "
       "lastMessage: no answer}}]}]",
       "the service timed is not healthy", "talosctl -n n logs timed"},
      {"registry", pull("dial tcp 10.5.0.1:443: connect: connection refused"),
       "nothing listens there",
       "start the registry r.example, or change machine.registries.mirrors"},
      {"registry", pull("dial tcp 10.5.0.1:443: i/o timeout"), "it does not answer",
       "make r.example reachable from the node"},
      {"registry",
       pull("Head \"https://r.example/v2/x\": x509: certificate signed by unknown authority"),
       "its certificate is not trusted", "machine.registries.config.\"r.example\".tls.ca"},
      {"registry",
       pull("Head \"https://r.example/v2/x\": x509: certificate has expired or is not yet valid"),
       "a certificate has expired", "renew the certificate of r.example, or correct the clock"},
      {"registry", pull("x509: certificate is valid for other.example, not r.example"),
       "does not have this name", "give r.example a certificate with this name"},
      {"registry", pull("http: server gave HTTP response to HTTPS client"), "it speaks HTTP",
       "machine.registries.mirrors: \"r.example\": {endpoints: [\"http://r.example\"]}"},
      {"registry", pull("lookup r.example on 10.5.0.1:53: no such host"), "its name is not known",
       "correct the name, its record in the DNS"},
      {"registry", pull("lookup r.example on 10.5.0.1:53: i/o timeout"), "no name server answers",
       "machine.network.nameservers"},
      // The answer of the mirror itself.
      {"registry",
       pull("unexpected status from HEAD request to "
            "http://10.5.0.1:5000/v2/kubelet/manifests/v1?ns=r.example: "
            "503 Service Unavailable; retrying in 5 s"),
       "from the registry 10.5.0.1:5000: it answers 503 Service Unavailable",
       "look at the log of 10.5.0.1:5000"},
      {"image-kubelet", pull("the registry has no such image"), "the registry has no such image",
       "\"path\": \"/machine/kubelet/image\", \"value\": \"<an image that exists>\""},
      {"image-kubelet",
       pull("pull access denied, repository does not exist or may require authorization"),
       "it requires other credentials", "machine.registries.config.\"r.example\".auth"},
      {"image-kubelet", pull("the disk has an error"), "see the evidence",
       "talosctl -n n image pull"},
      {"image-etcd",
       service("etcd", "preparing", "cannot pull \"e:v9\": the registry has no such image"),
       "the image of etcd cannot be pulled: e:v9",
       "talosctl -n n edit machineconfig --mode=reboot    # cluster.etcd.image"},
      {"image-control-plane",
       R"(nodes: [{address: n, controlPlane: true, logs: [{id: kubelet, lines: ['"Error syncing pod" err="failed to \"StartContainer\" for \"kube-scheduler\" with ErrImagePull: \"failed to pull and unpack image \\\"r/kube-scheduler:v9\\\": not found\"" pod="kube-system/x"']}]}])",
       "the image of kube-scheduler cannot be pulled", "/cluster/scheduler/image"},
  };
}

// Returns a pattern that a row's text fits with any values of its placeholders.
std::regex patternOf(kj::StringPtr text) {
  static const std::regex kSpecial(R"([.^$|()\[\]*+?\\])"), kPlaceholder(R"(\{[a-z]+\})");
  auto escaped = std::regex_replace(std::string(text.cStr()), kSpecial, R"(\$&)");
  return std::regex(std::regex_replace(escaped, kPlaceholder, ".*"));
}

std::vector<RemedyCase> allCases() {
  std::vector<RemedyCase> all;
  for (auto part : {machineRemedies(), networkRemedies(), trustRemedies(), runtimeRemedies(),
                    etcdRemedies(), kubernetesRemedies()}) {
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

// Catches: a remedy that is right for another cause of the same symptom, a cause that the evidence
// does not show, a check or a row of the table without a case.
TEST(Remedies, FollowFromTheEvidence) {
  std::set<kj::StringPtr> tried;
  std::set<const IllnessRow*> found;
  for (auto& one : allCases()) {
    SCOPED_TRACE(one.check + (": " + one.evidence));
    Diagnosed diagnosed(kj::StringPtr(one.evidence.c_str()));
    KJ_IF_MAYBE (finding, diagnosed.find(kj::StringPtr(one.check.c_str()))) {
      std::string cause = finding->getSummary().cStr();
      EXPECT_THAT(cause, testing::HasSubstr(one.cause));
      EXPECT_THAT(finding->getCommand().cStr(), testing::HasSubstr(one.remedy));
      for (auto& check : allChecks()) {
        if (one.check != check.name.cStr()) continue;
        tried.insert(check.name);
        for (auto& row : check.illnesses) {
          if (std::regex_match(cause, patternOf(row.cause))) found.insert(&row);
        }
      }
    } else {
      ADD_FAILURE() << "nothing found: " << diagnosed.text();
    }
  }
  for (auto& check : allChecks()) {
    EXPECT_EQ(tried.count(check.name), 1u) << check.name.cStr() << " has no case";
    for (auto& row : check.illnesses) {
      EXPECT_EQ(found.count(&row), 1u) << check.name.cStr() << " has no case: " << row.cause.cStr();
    }
  }
}

// Catches: a cause without a remedy; `bootstrap` where a cluster has been, which makes an empty
// one.
TEST(Remedies, ExistForEachCauseAndKeepData) {
  for (auto& check : allChecks()) {
    for (auto& row : check.illnesses) {
      EXPECT_GT(row.remedy.size(), 0u) << row.cause.cStr();
      if (row.id == Illness::kEtcdNotBootstrapped) continue;
      EXPECT_THAT(row.remedy.cStr(), testing::Not(testing::HasSubstr(" bootstrap")))
          << row.cause.cStr();
    }
  }
}

// Catches: a stopped kubelet as the consequence of a problem of the machine, whose remedy is a log.
TEST(Remedies, AStoppedServiceIsItsOwnCause) {
  Diagnosed all(
      R"(nodes: [{address: n, status: {problems: ['service kubelet is stopped: talosctl service kubelet start']}, services: [{id: kubelet, state: finished, events: [{message: 'Service stopped: Task kubelet (PID 82) exited with status 0'}]}]}])");
  EXPECT_THAT(all.causes(), testing::ElementsAre("kubelet")) << all.text();
  EXPECT_THAT(all.text(), testing::HasSubstr("remedy:   talosctl -n n service kubelet start\n"));
}

// Catches: a crash of networkd as the cause of a service that has nothing to do with it.
TEST(Remedies, ACrashExplainsItsOwnServiceOnly) {
  auto crash = [](const char* waiting) {
    return Diagnosed(
               kj::str(
                   "nodes: [{address: n, services: [{id: networkd, state: running, uptime: 2000, "
                   "events: [{uptime: 1000, message: 'x; crash report networkd-1'}]}, {id: ",
                   waiting,
                   ", state: waiting, uptime: 2000, events: [{uptime: 1500, message: 'Process "
                   "exited with signal SIGSEGV; crash report vipd-1; restarting in 3 s'}]}]}]"))
        .causes();
  };
  EXPECT_THAT(crash("vipd"), testing::ElementsAre("service-crash", "service-crash"));
  Diagnosed other(
      "nodes: [{address: n, services: [{id: networkd, state: running, uptime: 2000, events: "
      "[{uptime: "
      "1000, message: 'x; crash report networkd-1'}]}, {id: timed, state: waiting}]}]");
  EXPECT_THAT(other.causes(), testing::ElementsAre("service-crash", "service")) << other.text();
  EXPECT_THAT(other.text(), testing::HasSubstr("a bug [machine, certain]"));
}

// Catches: mirrors whose answers are only in containerd's log; the answers for another image that
// is pulled at the same time.
TEST(Remedies, APullShowsTheAnswersOfTheMirrors) {
  auto text = [](const char* between) {
    return Diagnosed(
               kj::str(
                   R"(nodes: [{address: n, facts: {mirrored: ['*']}, services: [{id: kubelet, state: preparing, events: [{message: 'cannot pull "r.example/kubelet:v1": Head "https://r.example/v2/kubelet/manifests/v1": lookup r.example: no such host'}]}], logs: [{id: cri, lines: ['level=info msg="PullImage \"r.example/kubelet:v1\""', )",
                   between,
                   R"('level=info msg="trying next host - response was http.StatusNotFound" host="10.5.0.1:5000"', 'level=error msg="PullImage \"r.example/kubelet:v1\" failed" error="x"']}]}])"))
        .text();
  };
  EXPECT_THAT(text(""), testing::AllOf(testing::HasSubstr("talosctl -n n logs cri"),
                                       testing::HasSubstr("host=\"10.5.0.1:5000\""),
                                       testing::HasSubstr("<an image that exists>")));
  EXPECT_THAT(text(R"('level=info msg="PullImage \"other:v1\""', )"),
              testing::Not(testing::HasSubstr("10.5.0.1:5000")));
}

}  // namespace
}  // namespace talos::talosctl
