"""Carries packets between two network devices, each MILLISECONDS after it came: delay_relay.py A B MILLISECONDS.

Says "ready" once it does; ends with its standard input.
"""
import collections
import selectors
import socket
import sys
import time

ETH_P_ALL = 3
PACKET_OUTGOING = 4
SOL_PACKET = 263
PACKET_VNET_HDR = 15


def device(name):
    raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
    raw.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)  # checksums and sizes that a device would still fill in stay marked so
    raw.bind((name, 0))
    raw.setblocking(False)
    return raw


def main():
    a, b = device(sys.argv[1]), device(sys.argv[2])
    delay = float(sys.argv[3]) / 1000
    waiting = collections.deque()
    selector = selectors.DefaultSelector()
    for source, target in ((a, b), (b, a)):
        selector.register(source, selectors.EVENT_READ, target)
    selector.register(sys.stdin, selectors.EVENT_READ)
    print("ready", flush=True)
    while True:
        timeout = max(0.0, waiting[0][0] - time.monotonic()) if waiting else None
        for key, _ in selector.select(timeout):
            if key.fileobj is sys.stdin:
                return
            while True:
                try:
                    packet, sender = key.fileobj.recvfrom(1 << 17)
                except BlockingIOError:
                    break
                if sender[2] != PACKET_OUTGOING:
                    waiting.append((time.monotonic() + delay, key.data, packet))
        now = time.monotonic()
        while waiting and waiting[0][0] <= now:
            _, target, packet = waiting.popleft()
            try:
                target.send(packet)
            except OSError:
                pass  # a full queue, or a packet that the device does not take: lost, as on a wire


main()
