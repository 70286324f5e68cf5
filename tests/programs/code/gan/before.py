"""A DCGAN-like pair on the 8x8 digits, after the PyTorch example."""
import random

import torch
import torch.nn as nn
import torch.optim as optim
from sklearn.datasets import load_digits
from torch.utils.data import DataLoader, TensorDataset

manualSeed = 999
random.seed(manualSeed)
torch.manual_seed(manualSeed)

nz, ngf, ndf, batch_size, num_epochs = 16, 8, 8, 64, 6
real_label, fake_label = 1.0, 0.0


def weights_init(m):
    classname = m.__class__.__name__
    if classname.find("Conv") != -1:
        nn.init.normal_(m.weight.data, 0.0, 0.02)
    elif classname.find("BatchNorm") != -1:
        nn.init.normal_(m.weight.data, 1.0, 0.02)
        nn.init.constant_(m.bias.data, 0)


netG = nn.Sequential(
    nn.ConvTranspose2d(nz, ngf * 2, 4), nn.BatchNorm2d(ngf * 2), nn.ReLU(True),
    nn.ConvTranspose2d(ngf * 2, 1, 4, 2, 1), nn.Tanh()).apply(weights_init)
netD = nn.Sequential(
    nn.Conv2d(1, ndf, 4, 2, 1), nn.LeakyReLU(0.2, inplace=True),
    nn.Conv2d(ndf, 1, 4), nn.Sigmoid(), nn.Flatten(0)).apply(weights_init)

data = torch.tensor(load_digits().images[:512] / 8 - 1).float().unsqueeze(1)
dataloader = DataLoader(TensorDataset(data), batch_size=batch_size, shuffle=True)
criterion = nn.BCELoss()
fixed_noise = torch.randn(16, nz, 1, 1)
optimizerD = optim.Adam(netD.parameters(), lr=1e-3, betas=(0.5, 0.999))
optimizerG = optim.Adam(netG.parameters(), lr=1e-3, betas=(0.5, 0.999))
img_list, G_losses, D_losses, iters = [], [], [], 0

for epoch in range(num_epochs):
    for i, (real,) in enumerate(dataloader):
        # (1) Update D network: maximize log(D(x)) + log(1 - D(G(z)))
        netD.zero_grad()
        label = torch.full((real.size(0),), real_label)
        errD_real = criterion(netD(real), label)
        errD_real.backward()
        fake = netG(torch.randn(real.size(0), nz, 1, 1))
        label.fill_(fake_label)
        errD_fake = criterion(netD(fake.detach()), label)
        errD_fake.backward()
        optimizerD.step()
        # (2) Update G network: maximize log(D(G(z)))
        netG.zero_grad()
        label.fill_(real_label)
        output = netD(fake)
        errG = criterion(output, label)
        errG.backward()
        optimizerG.step()
        G_losses.append(errG.item())
        D_losses.append((errD_real + errD_fake).item())
        if iters % 20 == 0:
            with torch.no_grad():
                img_list.append(netG(fixed_noise))
        iters += 1
    print("[%d/%d] Loss_D: %.4f Loss_G: %.4f D(G(z)): %.4f"
          % (epoch, num_epochs, D_losses[-1], G_losses[-1], output.mean().item()))

torch.save({"G": netG.state_dict(), "D": netD.state_dict(), "images": img_list}, "gan.pt")
