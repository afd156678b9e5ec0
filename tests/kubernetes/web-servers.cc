#include "tests/kubernetes/web-servers.h"

#include <set>
#include <sstream>

namespace talos {
namespace {

using harness::eventually;

// A pod's answer from there.
std::string fetched(const KubeCluster& cluster, const WebPod& from, const std::string& url) {
  auto result = cluster.kubectl({"exec", from.name, "--", "wget", "-q", "-T", "3", "-O", "-", url});
  return result.status == 0 ? result.out : "error: " + result.err;
}

// Waits until each of the servers has answered.
void checkAllAnswer(const KubeCluster& cluster, const WebPod& from, const std::string& url,
                    const std::vector<WebPod>& pods) {
  std::set<std::string> answered;
  bool all = eventually(
      [&] {
        answered.insert(fetched(cluster, from, url));
        size_t known = 0;
        for (auto& pod : pods) known += answered.count(pod.node + "\n");
        return known == pods.size();
      },
      60, 0.1);
  EXPECT_TRUE(all) << "from " << from.node << " at " << url << ": "
                   << testing::PrintToString(answered);
}

}  // namespace

const char* const kWebServers = R"(apiVersion: apps/v1
kind: DaemonSet
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      tolerations: [{operator: Exists}]
      terminationGracePeriodSeconds: 0
      containers:
      - name: web
        image: busybox:1.37
        command: [sh, -c, "mkdir /tmp/w; echo $NODE >/tmp/w/index.html; echo serving; exec httpd -f -p 8080 -h /tmp/w"]
        env: [{name: NODE, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}]
        readinessProbe: {tcpSocket: {port: 8080}, periodSeconds: 1}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ipFamilyPolicy: PreferDualStack, ports: [{port: 80, targetPort: 8080}]}
)";

std::vector<WebPod> webPods(const KubeCluster& cluster) {
  auto text = cluster.ok({"get", "pods", "-l", "app=web", "-o",
                          "jsonpath={range .items[*]}{.metadata.name} {.spec.nodeName} "
                          "{.status.podIPs[*].ip}{\"\\n\"}{end}"});
  std::vector<WebPod> pods;
  for (auto& line : harness::lines(text)) {
    std::istringstream words(line);
    WebPod pod;
    words >> pod.name >> pod.node;
    for (std::string address; words >> address;) pod.addresses.push_back(address);
    if (!pod.addresses.empty()) pods.push_back(pod);
  }
  return pods;
}

void checkPodNetwork(const KubeCluster& cluster) {
  auto pods = webPods(cluster);
  ASSERT_GE(pods.size(), 2u);
  // DNS, and the Service itself, which chooses.
  std::vector<std::string> urls = {"http://web.default.svc.cluster.local/"};
  std::istringstream service(
      cluster.ok({"get", "service", "web", "-o", "jsonpath={.spec.clusterIPs[*]}"}));
  for (std::string address; service >> address;) urls.push_back(httpUrl(address, 80) + "/");
  ASSERT_EQ(urls.size(), 1 + pods[0].addresses.size()) << testing::PrintToString(urls);
  for (auto& from : pods) {
    for (auto& to : pods) {
      for (auto& address : to.addresses) {
        // A kubelet that was just started learns of its pods first.
        std::string got;
        bool answered = eventually(
            [&] {
              got = fetched(cluster, from, httpUrl(address, 8080) + "/");
              return got == to.node + "\n";
            },
            60, 0.5);
        EXPECT_TRUE(answered) << "from " << from.node << " to " << to.node << " at " << address
                              << ": " << got;
      }
    }
    for (auto& url : urls) checkAllAnswer(cluster, from, url, pods);
  }
}

}  // namespace talos
